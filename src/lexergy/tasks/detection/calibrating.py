"""Calibrate a trained detector on texts it has not seen, cut to many lengths."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from lexergy.core.detection.calibration import Calibration, fit_calibration, fit_offset
from lexergy.data.detection.style import style_of
from lexergy.errors import LexergyError
from lexergy.models.detection.conditions import TrainingConditions, energy_ranges
from lexergy.models.detection.detector import FEWEST_TOKENS, Detector
from lexergy.models.detection.people import PeopleTexts
from lexergy.models.detection.readers import TokenisedText
from lexergy.tasks.detection.examples import Example
from lexergy.tasks.detection.prepared import PreparedTexts, prepare_texts
from lexergy.tasks.detection.splicing import SentenceTruth, WrittenText, fit_sentences, judge_splices, splices

SHORTEST_CUT = 8  # tokens; cuts are of so many, twice as many, and so on, and the whole text


class Pieces(NamedTuple):
    """Energies of parts of texts: how long each is, and the number of its text."""

    energies: list[float]
    tokens: list[int]
    texts: list[int]


def calibrated(detector: Detector, validation: PreparedTexts, train: PreparedTexts) -> Detector:
    """The detector with calibrations of texts and of spans, and the conditions under which they hold."""
    cuts, spans = read_pieces(detector, validation.texts)
    sentence, writers = fit_sentences(_splices(detector, validation, seed=0))
    settings = replace(
        detector.settings,
        text=fit_pieces(cuts, validation),
        span=fit_pieces(spans, validation),
        sentence=sentence,
        writers=writers,
        trained_on=_conditions(train, cuts),
        people=_people(cuts, validation),
    )
    return Detector(detector.reader, settings)


@dataclass(frozen=True)
class Recalibration:
    """What another kind of text has changed: the offsets, and P(machine) of its texts on average, before and after."""

    folder: str
    texts: dict[str, int]  # by writer
    before: Calibration
    after: Calibration
    probability_before: dict[str, float]  # by writer
    probability_after: dict[str, float]


def recalibrate(model: str | Path, examples: Sequence[Example], folder: str | Path) -> Recalibration:
    """Fit the offsets of a detector's calibrations to another kind of text, and save it to `folder`."""
    detector = Detector.from_pretrained(model)
    texts = prepare_texts(detector, examples)
    cuts, spans = read_pieces(detector, texts.texts)
    before, before_span = detector.settings.text, detector.settings.span
    if before is None or before_span is None:
        raise LexergyError(
            f"the detector in `{model}` was not trained and has no probabilities to calibrate; expected one of "
            "`lexergy detect train`; false positives are calibrated by `lexergy detect --calibrate`."
        )
    after, span = (fit_offset(own, *tensors(pieces, texts)) for own, pieces in ((before, cuts), (before_span, spans)))
    Detector(detector.reader, replace(detector.settings, text=after, span=span)).save_pretrained(folder)
    energies, tokens, is_machine, numbers = tensors(cuts, texts)
    is_whole = tokens == texts.tokens[torch.tensor(numbers)]

    def mean_probability(calibration: Calibration) -> dict[str, float]:
        probabilities = calibration.log_odds(energies, tokens).sigmoid()
        return {
            "people": float(probabilities[is_whole & ~is_machine].mean()),
            "machines": float(probabilities[is_whole & is_machine].mean()),
        }

    counts = {"people": int((~texts.is_machine).sum()), "machines": int(texts.is_machine.sum())}
    return Recalibration(str(folder), counts, before, after, mean_probability(before), mean_probability(after))


def _splices(detector: Detector, texts: PreparedTexts, seed: int) -> list[SentenceTruth]:
    """What the detector says of the texts, spliced."""
    written = zip((own.text for own in texts.texts), texts.is_machine.tolist(), texts.groups, strict=True)
    return judge_splices(detector, splices([WrittenText(*own) for own in written], seed))


def read_pieces(detector: Detector, texts: Sequence[TokenisedText]) -> tuple[Pieces, Pieces]:
    """The ends of texts, each read as a text of its own; and the spans of the whole texts, read within them."""
    cuts, spans = Pieces([], [], []), Pieces([], [], [])
    parts = [(number, part) for number, text in enumerate(texts) for part in endings(text)]
    for (number, part), detection in zip(parts, detector.judge([part for _, part in parts]), strict=True):
        _add(cuts, detection.energy, detection.tokens, number)
        if len(part.ids) == len(texts[number].ids):
            for span in detection.spans:
                _add(spans, span.energy, span.tokens, number)
    return cuts, spans


def endings(text: TokenisedText) -> list[TokenisedText]:
    """The last 8, 16, 32, ... tokens of a text, and the whole of it.

    Not the first: machine texts often begin with a prompt, which people wrote.
    """
    parts = [*(text.last(length) for length in cut_lengths(len(text.ids))), text]
    return list({len(part.ids): part for part in parts if len(part.ids) >= FEWEST_TOKENS}.values())


def cut_lengths(tokens: int) -> list[int]:
    """8, 16, 32, ... below `tokens`."""
    lengths = [SHORTEST_CUT]
    while lengths[-1] < tokens:
        lengths.append(2 * lengths[-1])
    return lengths[:-1]


def fit_pieces(pieces: Pieces, texts: PreparedTexts) -> Calibration:
    """The calibration that the writers of the texts ask for."""
    return fit_calibration(*tensors(pieces, texts))


def tensors(pieces: Pieces, texts: PreparedTexts) -> tuple[Tensor, Tensor, Tensor, list[int]]:
    """Energies, tokens, writers (N,) each, and texts, as `fit_calibration` takes them."""
    energies, tokens = torch.tensor(pieces.energies, dtype=torch.double), torch.tensor(pieces.tokens)
    return energies, tokens, texts.is_machine[torch.tensor(pieces.texts)], pieces.texts


def _people(cuts: Pieces, texts: PreparedTexts) -> PeopleTexts:
    """The whole texts of people."""
    whole = {
        number: energy
        for energy, tokens, number in zip(*cuts, strict=True)
        if tokens == len(texts.texts[number].ids) and not texts.is_machine[number]
    }
    return PeopleTexts(
        energies=tuple(whole.values()),
        tokens=tuple(len(texts.texts[number].ids) for number in whole),
        domains=tuple(texts.sources[number] for number in whole),
        styles=tuple(style_of(texts.texts[number].text) for number in whole),
    )


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
