"""Calibrate a trained detector on texts it has not seen, cut to many lengths."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import torch

from lexergy.core.calibration import Calibration, fit_calibration
from lexergy.models.detection.conditions import TrainingConditions, energy_ranges
from lexergy.models.detection.detector import FEWEST_TOKENS, Detector
from lexergy.models.detection.readers import TokenisedText
from lexergy.tasks.detection.prepared import PreparedTexts

SHORTEST_CUT = 8  # tokens; cuts are of so many, twice as many, and so on, and the whole text


class Pieces(NamedTuple):
    """Energies of parts of texts: how long each is, and the number of its text."""

    energies: list[float]
    tokens: list[int]
    texts: list[int]


def calibrated(detector: Detector, validation: PreparedTexts, train: PreparedTexts) -> Detector:
    """The detector with calibrations of texts and of spans, and the conditions under which they hold."""
    cuts, spans = read_pieces(detector, validation.texts)
    settings = replace(
        detector.settings,
        text=fit_pieces(cuts, validation),
        span=fit_pieces(spans, validation),
        trained_on=_conditions(train, cuts),
    )
    return Detector(detector.reader, settings)


def read_pieces(detector: Detector, texts: Sequence[TokenisedText]) -> tuple[Pieces, Pieces]:
    """The beginnings of texts, each read as a text of its own; and the spans of the whole texts, read within them."""
    cuts, spans = Pieces([], [], []), Pieces([], [], [])
    parts = [(number, part) for number, text in enumerate(texts) for part in beginnings(text)]
    for (number, part), detection in zip(parts, detector.judge([part for _, part in parts]), strict=True):
        _add(cuts, detection.energy, detection.tokens, number)
        if len(part.ids) == len(texts[number].ids):
            for span in detection.spans:
                _add(spans, span.energy, span.tokens, number)
    return cuts, spans


def beginnings(text: TokenisedText) -> list[TokenisedText]:
    """The text cut to 8, 16, 32, ... tokens, and the whole of it."""
    parts = [*(text.first(length) for length in cut_lengths(len(text.ids))), text]
    return list({len(part.ids): part for part in parts}.values())


def cut_lengths(tokens: int) -> list[int]:
    """8, 16, 32, ... below `tokens`."""
    lengths = [SHORTEST_CUT]
    while lengths[-1] < tokens:
        lengths.append(2 * lengths[-1])
    return lengths[:-1]


def fit_pieces(pieces: Pieces, texts: PreparedTexts) -> Calibration:
    """The calibration that the writers of the texts ask for."""
    energies, tokens = torch.tensor(pieces.energies, dtype=torch.double), torch.tensor(pieces.tokens)
    return fit_calibration(energies, tokens, texts.is_machine[torch.tensor(pieces.texts)], pieces.texts)


def _conditions(train: PreparedTexts, cuts: Pieces) -> TrainingConditions:
    lengths = train.tokens.tolist()
    starts = [FEWEST_TOKENS, *cut_lengths(max(cuts.tokens))]
    return TrainingConditions(
        fewest_tokens=min(lengths),
        most_tokens=max(lengths),
        energies=energy_ranges(cuts.energies, cuts.tokens, starts),
        people=train.people_sources,
        machines=train.machine_sources,
    )


def _add(pieces: Pieces, energy: float, tokens: int, text: int) -> None:
    pieces.energies.append(energy)
    pieces.tokens.append(tokens)
    pieces.texts.append(text)
