"""The score `assistant` against sums written out, and what its words say of people whose words are drawn by chance."""

import math
from dataclasses import replace

import pytest
import torch

from lexergy.core.detection.assistant import AssistantScore, HabitWeights, WordWeights, is_first
from lexergy.core.detection.zero_shot import TokenStatistics

WORDS = WordWeights(tokens=(3, 5, 8), weights=(0.5, -1.0, 0.25), rates=(0.1, 0.02, 0.3))


def by_hand(present, length):
    expected = [1 - (1 - rate) ** length for rate in WORDS.rates]
    gained = sum(w * (here - pi) for w, here, pi in zip(WORDS.weights, present, expected, strict=True))
    return gained / math.sqrt(sum(w**2 * pi * (1 - pi) for w, pi in zip(WORDS.weights, expected, strict=True)))


def test_words_by_hand():
    terms = WORDS.terms(torch.tensor([3, 9, 3, 8, 3, 9]))
    assert float(terms.mean()) == pytest.approx(by_hand([1, 0, 1], 6))
    assert float(terms[0] - terms[1]) == pytest.approx(float(terms[0] - terms[2]))  # again, it counts as little as none
    assert float(terms[0]) > float(terms[3]) > float(terms[1])


def test_a_word_that_assistants_like_speaks_for_one_and_one_of_peoples_against():
    neither, liked, disliked = (float(WORDS.terms(torch.tensor([9, 9, own, 9])).mean()) for own in (9, 3, 5))
    assert liked > neither > disliked


def test_peoples_texts_have_mean_0_and_deviation_1_at_all_lengths():
    """Tokens drawn by people's rates: the mean and deviation of 2000 texts, five standard errors apart at most."""
    generator = torch.Generator().manual_seed(0)
    rates = torch.tensor([0.1, 0.02, 0.3, 0.58])
    tokens = torch.tensor([3, 5, 8, 9])
    for length in (4, 30, 200):
        drawn = tokens[torch.multinomial(rates, 2000 * length, replacement=True, generator=generator)]
        found = torch.stack([WORDS.terms(own).mean() for own in drawn.view(2000, length)])
        assert abs(float(found.mean())) < 5 / math.sqrt(2000)
        assert float(found.std()) == pytest.approx(1, abs=0.15)  # words of one text exclude each other a little


def test_the_first_of_each():
    assert is_first(torch.tensor([4, 4, 2, 4, 2, 7])).tolist() == [True, False, True, False, False, True]


def test_the_whole_score_by_hand():
    log_probs, variances, ranks = [-1.0, -6.0, -2.0], [1.0, 4.0, 2.5], [0, 299, 3]
    tokens = TokenStatistics(
        *(torch.tensor(own).double() for own in (log_probs, [-2.0] * 3, variances)),
        torch.tensor(ranks).double().log1p(),
    )
    score = AssistantScore(means=(-3.5, -0.2, -5.0), deviations=(0.5, 0.1, 2.0), words=WORDS, share=0.4)
    measured = (sum(log_probs) / 3, -math.log(3) / 3, -sum(variances) / 3)
    by_lm = sum(
        (own - mean) / deviation / 3
        for own, mean, deviation in zip(measured, score.means, score.deviations, strict=True)
    )
    ids = torch.tensor([5, 3, 9, 3])  # nothing predicts the first, which counts nowhere
    assert float(score.terms(ids, tokens).mean()) == pytest.approx(by_lm + 0.4 * by_hand([1, 0, 0], 3))
    habits = replace(score, habits=HabitWeights((2.0, -1.0), mean=0.5, deviation=4.0))
    by_habits = (2 * 3 - 7 - 0.5) / 4
    expected = by_lm + 0.4 * (by_hand([1, 0, 0], 3) + by_habits)
    assert float(habits.terms(ids, tokens, (3.0, 7.0)).mean()) == pytest.approx(expected)
    for floor, found in ((by_lm - 1, by_lm), (by_lm + 1, by_lm + 1)):  # which counts only where the LM says less
        own = replace(score, floor=floor).terms(ids, tokens)
        assert float(own.mean()) == pytest.approx(found + 0.4 * by_hand([1, 0, 0], 3))
    assert torch.allclose(own - score.terms(ids, tokens), torch.ones(3, dtype=torch.double))  # shared out evenly


def test_without_words_nothing_is_said_of_them():
    assert WordWeights((), (), ()).terms(torch.tensor([1, 2])).tolist() == [0, 0]
