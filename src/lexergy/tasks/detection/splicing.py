"""Texts of people and machines spliced at known places, and what a detector's sentences should have said of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from lexergy.core.detection.calibration import Calibration, fit_calibration
from lexergy.core.detection.two_writers import TwoWriters, fit_two_writers
from lexergy.data.detection.sentences import MixedText, sentences, spliced, without_shared_beginning
from lexergy.models.detection.detector import Detection, Detector

SHARES = (0.0, 0.25, 0.5, 0.75)  # of a text's sentences that are its guest's, in turn
FEWEST_SENTENCES = 2


class WrittenText(NamedTuple):
    """A plain text, who wrote it, and what it belongs to."""

    text: str
    is_machine: bool
    group: str


@dataclass(frozen=True)
class Splice:
    """A text of two writers; its group is that of its host."""

    mixed: MixedText
    group: str


def splices(texts: Sequence[WrittenText], seed: int) -> list[Splice]:
    """Each text in turn as a host, with a run of sentences of the other writer's text of its group, or of the next.

    A machine that went on from a person's words is left without those (`without_shared_beginning`).
    """
    people, machines = ([own for own in texts if own.is_machine == wanted] for wanted in (False, True))
    by_group = {(own.group, own.is_machine): own for own in reversed(texts)}
    spliced_texts = []
    for number, host in enumerate(texts):
        others = people if host.is_machine else machines
        guest = by_group.get((host.group, not host.is_machine), others[number % len(others)])
        own, theirs = _continuation(host, guest), _continuation(guest, host)
        if min(len(sentences(own)), len(sentences(theirs))) >= FEWEST_SENTENCES:
            share, own_seed = SHARES[number // 2 % len(SHARES)], _seed(seed, number)
            spliced_texts.append(Splice(spliced(own, theirs, host.is_machine, share, own_seed), host.group))
    return spliced_texts


def _continuation(text: WrittenText, beside: WrittenText) -> str:
    return without_shared_beginning(text.text, beside.text) if text.is_machine else text.text


def _seed(seed: int, number: int) -> int:
    return int(np.random.SeedSequence((seed, number)).generate_state(1)[0])


class SentenceTruth(NamedTuple):
    """What a detector said of a spliced text, and who wrote most of each of its sentences."""

    detection: Detection
    is_machine: Tensor  # (S,) bool
    splice: Splice

    @property
    def energies(self) -> Tensor:  # (S,)
        return torch.tensor([own.energy for own in self.detection.sentences], dtype=torch.double)

    @property
    def tokens(self) -> Tensor:  # (S,)
        return torch.tensor([own.tokens for own in self.detection.sentences])


def judge_splices(detector: Detector, spliced_texts: Sequence[Splice]) -> list[SentenceTruth]:
    """Read them as any text; those that a detector reads otherwise than they were spliced are left out."""
    read = [(detector.read(own.mixed.text), own) for own in spliced_texts]
    kept = [(text, own) for text, own in read if own.mixed.text.startswith(text.text) and detector.blocks_of(text)]
    judged = detector.judge([text for text, _ in kept])
    truths = []
    for detection, (_, own) in zip(judged, kept, strict=True):
        is_machine = own.mixed.is_machine_at
        shares = [np.nanmean(is_machine[sentence.start : sentence.end]) for sentence in detection.sentences]
        truths.append(SentenceTruth(detection, torch.tensor(shares) > 0.5, own))
    return truths


def fit_sentences(truths: Sequence[SentenceTruth]) -> tuple[Calibration | None, TwoWriters | None]:
    """What a sentence says by itself, and the chain that joins it with its neighbours, under which the writers are
    likeliest; nothing where not both have written some."""
    writers = {bool(machine) for own in truths for machine in own.is_machine}
    if len(writers) < 2:
        return None, None
    calibration = fit_calibration(*sentence_pieces(truths))
    log_odds = [calibration.log_odds(own.energies, own.tokens) for own in truths]
    return calibration, fit_two_writers(log_odds, [own.is_machine for own in truths])


def sentence_pieces(truths: Sequence[SentenceTruth]) -> tuple[Tensor, Tensor, Tensor, list[int]]:
    """Energies, tokens, writers (N,) of all sentences, and their texts, as `fit_calibration` takes them."""
    texts = [number for number, own in enumerate(truths) for _ in own.detection.sentences]
    return (
        torch.cat([own.energies for own in truths]),
        torch.cat([own.tokens for own in truths]),
        torch.cat([own.is_machine for own in truths]),
        texts,
    )
