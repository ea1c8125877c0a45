"""Texts of two writers: what is spliced, what a detector says of their sentences, and how often it is right."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from lexergy.core.detection.calibration import Calibration
from lexergy.core.detection.two_writers import TwoWriters
from lexergy.data.detection.sentences import MixedText, Written, sentences
from lexergy.models.detection.detector import Detector
from lexergy.tasks.detection.attribution import attribution, attribution_row, reliability
from lexergy.tasks.detection.splicing import (
    SHARES,
    Splice,
    WrittenText,
    fit_sentences,
    judge_splices,
    sentence_pieces,
    splices,
)
from toys.texts import MACHINE, PEOPLE, written


def prose(words, seed):
    return ". ".join(part.strip().capitalize() for part in written(words, seed).split(".") if part.strip()) + "."


TEXTS = [
    WrittenText(prose(words, 2 * number + is_machine), bool(is_machine), f"pair {number}")
    for number in range(8)
    for is_machine, words in enumerate((PEOPLE, MACHINE))
]


def test_every_text_is_a_host_of_the_writer_beside_it():
    made = splices(TEXTS, seed=1)
    assert made == splices(TEXTS, seed=1) != splices(TEXTS, seed=2)
    assert len(made) == len(TEXTS)
    by_group = {(own.group, own.is_machine): own.text for own in TEXTS}
    for number, (host, splice) in enumerate(zip(TEXTS, made, strict=True)):
        assert splice.group == host.group
        guests = [own for own in splice.mixed.sentences if own.is_machine != host.is_machine]
        assert len(guests) == round(SHARES[number // 2 % 4] * len(splice.mixed.sentences))
        for own in splice.mixed.sentences:
            assert splice.mixed.text[own.start : own.end] in by_group[host.group, own.is_machine]


def test_a_prompt_is_not_the_machines():
    people, machine = "The man ran home. He sang. He slept.", "The man ran home. He sank. He swam. He ate."
    made = splices([WrittenText(people, False, "a"), WrittenText(machine, True, "a")], seed=0)
    assert made[1].mixed.text == "He swam. He ate."
    assert all(own.is_machine for own in made[1].mixed.sentences)


@pytest.fixture
def telling(encoder_detector):
    """The toy with a calibration of sentences that it was given."""
    settings = replace(encoder_detector.settings, sentence=Calibration(slope=2.0), writers=TwoWriters(0.2, 0.8, 0.1))
    return Detector(encoder_detector.reader, settings)


def test_sentences_are_means_over_their_tokens_and_joined_by_the_chain(telling, encoder_detector):
    text = TEXTS[1].text
    (judged,) = telling.detect([text], prior=0.3)
    assert [(own.start, own.end) for own in judged.sentences] == sentences(judged.text)
    assert sum(own.tokens for own in judged.sentences) == judged.tokens
    total = sum(own.tokens * own.energy for own in judged.sentences)
    by_span = sum(own.tokens * own.energy for own in judged.spans)
    assert total == pytest.approx(by_span)
    assert max(own.energy for own in judged.sentences) > min(own.energy for own in judged.sentences)
    log_odds = torch.tensor([2 * own.energy for own in judged.sentences], dtype=torch.double)
    expected = TwoWriters(0.2, 0.8, 0.1).probabilities(log_odds, 0.3)
    assert [own.probability for own in judged.sentences] == pytest.approx(expected.tolist())
    (untold,) = encoder_detector.detect([text])
    assert {own.probability for own in untold.sentences} == {None}


def test_a_chain_is_saved_with_its_detector(telling, tmp_path):
    telling.save_pretrained(tmp_path)
    assert Detector.from_pretrained(tmp_path).settings == telling.settings


def test_the_writer_of_a_sentence_is_that_of_most_of_it(telling):
    made = splices(TEXTS, seed=1)
    truths = judge_splices(telling, made)
    assert len(truths) == len(made)
    for own, splice in zip(truths, made, strict=True):
        assert own.is_machine.tolist() == [part.is_machine for part in splice.mixed.sentences]


def test_what_is_fitted_tells_the_writers(telling):
    """Energies that lie on the side of the writer: the fit must say so, on either side of the middle."""
    truths = [
        own._replace(detection=replace(own.detection, sentences=tuple(_told(own))))
        for own in judge_splices(telling, splices(TEXTS, seed=1))
    ]
    calibration, chain = fit_sentences(truths)
    assert calibration.slope > 0
    energies, tokens, is_machine, _ = sentence_pieces(truths)
    assert ((calibration.log_odds(energies, tokens) > 0) == is_machine).double().mean() > 0.9
    assert 0 < chain.rate < 0.4
    same = [own for own in truths if own.is_machine.all()]
    assert fit_sentences(same) == (None, None)


def _told(truth):
    for number, (own, machine) in enumerate(zip(truth.detection.sentences, truth.is_machine.tolist(), strict=True)):
        yield replace(own, energy=(1.0 if machine else -1.0) + 0.7 * math.sin(7 * number + own.start))


def test_characters_are_attributed_by_hand(telling):
    text = "One sang. It is. Two ran."
    mixed = MixedText(text, (Written(0, 9, False), Written(10, 16, True), Written(17, 25, False)))
    (truth,) = judge_splices(telling, [Splice(mixed, "a")])
    sides = [0.2, 0.9, 0.8]
    parts = tuple(replace(own, probability=p) for own, p in zip(truth.detection.sentences, sides, strict=True))
    truth = truth._replace(detection=replace(truth.detection, sentences=parts, probability=0.9))
    row = attribution_row(telling, truth)
    chain, _, whole, people, machine = row["right"]
    assert chain == pytest.approx((9 + 6) / 23)
    assert whole == machine == pytest.approx(6 / 23)
    assert people == pytest.approx(17 / 23)
    assert row["is_machine"] == [False, True, False]
    second = {**row, "group": "b", "right": [1.0] * 5}
    report = attribution([row, second])
    assert report.right["sentences, with their neighbours"].value == pytest.approx((15 / 23 + 1) / 2)
    assert report.sentences == 6
    assert [(level.sentences, level.machine) for level in report.reliability] == [(2, 0.0), (4, 0.5)]


def test_reliability_by_hand():
    probabilities = torch.tensor([0.0, 0.1, 0.5, 0.95, 1.0])
    levels = reliability(probabilities, torch.tensor([False, True, True, True, True]))
    assert [level.sentences for level in levels] == [2, 1, 2]
    assert [level.machine for level in levels] == [0.5, 1.0, 1.0]
    assert np.allclose([level.probability for level in levels], [0.05, 0.5, 0.975])
