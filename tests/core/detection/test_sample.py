"""The score `sample` against sums written out."""

import math

import pytest
import torch

from lexergy.core.detection.sample import MEASURES, SampleScore, measures
from lexergy.core.detection.zero_shot import TokenStatistics

LOG_PROBS, ENTROPIES, VARIANCES, RANKS = [-1.0, -6.0, -2.0], [2.0, 3.0, 0.5], [1.0, 4.0, 2.5], [0, 299, 9]
TOKENS = TokenStatistics(
    *(torch.tensor(own).double() for own in (LOG_PROBS, [-own for own in ENTROPIES], VARIANCES)),
    torch.tensor(RANKS).double().log1p(),
)


def by_hand(log_prob, entropy, variance, rank):
    return {
        "log-probability": log_prob,
        "entropy": entropy,
        "varentropy": variance,
        "log-rank": math.log(1 + rank),
        "rank-tail": -max(0.0, math.log((1 + rank) / 100)),
    }


def test_measures_by_hand():
    rows = zip(LOG_PROBS, ENTROPIES, VARIANCES, RANKS, strict=True)
    expected = [[by_hand(*row)[name] for name in MEASURES] for row in rows]
    torch.testing.assert_close(measures(TOKENS), torch.tensor(expected).double())


def test_the_score_is_the_mean_of_weighed_measures():
    weights = tuple(0.1 * (place + 1) * (-1) ** place for place in range(len(MEASURES)))
    terms = SampleScore(weights, offset=0.7).terms(TOKENS)
    rows = [by_hand(*row) for row in zip(LOG_PROBS, ENTROPIES, VARIANCES, RANKS, strict=True)]
    sums = [sum(weight * row[name] for weight, name in zip(weights, MEASURES, strict=True)) for row in rows]
    assert terms.tolist() == pytest.approx([0.7 + own for own in sums])
