"""The score `assistant` against sums written out."""

import math
from dataclasses import replace

import pytest
import torch

from lexergy.core.detection.assistant import AssistantScore
from lexergy.core.detection.wording import Wording, WordingWeights
from lexergy.core.detection.zero_shot import TokenStatistics

LOG_PROBS, VARIANCES, RANKS = [-1.0, -6.0, -2.0], [1.0, 4.0, 2.5], [0, 299, 3]
TOKENS = TokenStatistics(
    *(torch.tensor(own).double() for own in (LOG_PROBS, [-2.0] * 3, VARIANCES)), torch.tensor(RANKS).double().log1p()
)
SCORE = AssistantScore(
    means=(-3.5, -0.2, -5.0),
    deviations=(0.5, 0.1, 2.0),
    wording=WordingWeights(("the", "-ing"), (0.5, -1.0), (1.0, 1.5), habits=(2.0,), mean=0.5, deviation=4.0),
    share=0.4,
)
WORDING = Wording(("the", "the"), (0, 2), (3.0,))
BY_WORDING = (0.5 + 2 * 3 - 0.5) / 4
MEASURED = (sum(LOG_PROBS) / 3, -math.log(3) / 3, -sum(VARIANCES) / 3)
BY_LM = sum(
    (own - mean) / deviation / 3 for own, mean, deviation in zip(MEASURED, SCORE.means, SCORE.deviations, strict=True)
)


def test_the_whole_score_by_hand():
    assert float(SCORE.terms(TOKENS, WORDING).mean()) == pytest.approx(BY_LM + 0.4 * BY_WORDING)


@pytest.mark.parametrize(("floor", "found"), [(BY_LM - 1, BY_LM), (BY_LM + 1, BY_LM + 1)])
def test_a_floor_counts_only_where_the_lm_says_less(floor, found):
    own = replace(SCORE, floor=floor).terms(TOKENS, WORDING)
    assert float(own.mean()) == pytest.approx(found + 0.4 * BY_WORDING)
    assert torch.allclose(own - SCORE.terms(TOKENS, WORDING), torch.tensor(found - BY_LM).double())  # shared out evenly


def test_a_token_counts_by_what_the_lm_says_of_it_and_the_phrases_that_end_in_it():
    without = SCORE.terms(TOKENS, WORDING._replace(phrases=(), places=()))
    moved = (SCORE.terms(TOKENS, WORDING) - without).tolist()
    assert moved == pytest.approx([0.4 * 3 * 0.25 / 4, 0, 0.4 * 3 * 0.25 / 4])
