import math

import pytest
import torch

from lexergy.core.rescoring import WEIGHTS, choose_weight, chosen_statistics, combined_scores, matched_pairs


def error_rate(sums):
    return 100 * sums[..., 0] / sums[..., 1]


FIRST = torch.tensor([[-1.0, -2.0, -math.inf], [-1.0, -1.5, -3.0]]).double()
SCORES = torch.tensor([[-9.0, -2.0, 0.0], [-4.0, -5.0, -1.0]]).double()
STATISTICS = torch.tensor([[[2, 4], [0, 4], [9, 4]], [[0, 6], [1, 6], [3, 6]]]).double()


def test_the_weight_is_that_of_the_fewest_errors():
    """At .05 the first pass decides in both; from .15 on the first utterance is right; at .7 the second goes wrong."""
    assert WEIGHTS[0] == 0.05
    assert WEIGHTS[-1] == 1.0
    assert len(WEIGHTS) == 20
    values = {}
    for weight in WEIGHTS:
        chosen = combined_scores(FIRST, SCORES, weight).argmax(1)
        values[weight] = float(error_rate(chosen_statistics(STATISTICS, chosen).sum(0)))
    assert values[0.1] == pytest.approx(20.0)
    assert values[0.5] == pytest.approx(0.0)
    assert values[1.0] == pytest.approx(30.0)
    weight = choose_weight(FIRST, SCORES, STATISTICS, error_rate, higher_is_better=False)
    assert weight == 0.15
    assert choose_weight(FIRST, SCORES, STATISTICS, error_rate, higher_is_better=True) == 0.7


def test_what_is_not_there_is_never_chosen():
    for weight in WEIGHTS:
        assert combined_scores(FIRST, SCORES, weight).argmax(1)[0] != 2


def test_matched_pairs_see_a_small_difference_that_every_utterance_shares():
    generator = torch.Generator().manual_seed(0)
    words = torch.full((400,), 20.0).double()
    errors = torch.randint(0, 10, (400,), generator=generator).double()
    worse = torch.stack([errors + (torch.arange(400) % 10 == 0), words], dim=1)  # one more error in a tenth of them
    better = torch.stack([errors, words], dim=1)
    comparison = matched_pairs(worse, better, error_rate, seed=1)
    assert comparison.difference == pytest.approx(0.5)
    assert 0.3 < comparison.low < 0.5 < comparison.high < 0.75
    assert comparison.p_value == pytest.approx(2 / 1001)
    flipped = matched_pairs(better, worse, error_rate, seed=1)
    assert flipped.difference == pytest.approx(-0.5)
    assert (flipped.low, flipped.high) == (pytest.approx(-comparison.high), pytest.approx(-comparison.low))
    same = matched_pairs(better, better, error_rate, seed=1)
    assert (same.difference, same.low, same.high, same.p_value) == (0, 0, 0, 1)
