"""Intervals by hand, and verdicts at their edges."""

import math

import numpy as np
import pytest
import torch
from scipy.stats import binomtest

from lexergy.core.estimation.findings import (
    NOTHING,
    Estimate,
    Verdict,
    above,
    agrees,
    between,
    mean,
    of_groups,
    over_runs,
    proportion,
    similar,
)


def test_several_runs_give_a_t_interval():
    found = over_runs([1.0, 2.0, 3.0], [math.nan] * 3)
    assert found.value == 2
    assert found.high - found.value == pytest.approx(4.3027 / math.sqrt(3), rel=1e-4)  # t of 2 degrees of freedom
    assert found.value - found.low == pytest.approx(found.high - found.value)


def test_one_run_gives_a_bootstrap_interval():
    values = np.random.default_rng(0).normal(5, 2, 400)
    found = mean([values])
    assert found.value == values.mean()
    assert (found.high - found.low) / 2 == pytest.approx(1.96 * values.std() / 20, rel=0.1)


def test_groups_of_windows_are_drawn_together():
    values = np.random.default_rng(0).normal(5, 2, 400)
    repeated = mean([values.repeat(4)], groups=[[place for place in range(400) for _ in range(4)]])
    assert repeated.value == pytest.approx(values.mean())
    assert (repeated.high - repeated.low) / 2 == pytest.approx(1.96 * values.std() / 20, rel=0.1)


def test_runs_and_not_windows_are_counted():
    """Many windows of two runs that disagree say little."""
    found = mean([np.zeros(1000), np.ones(1000)])
    assert found == Estimate(0.5, pytest.approx(0.5 - 12.706 / 2, abs=1e-3), pytest.approx(0.5 + 12.706 / 2, abs=1e-3))


def test_nothing_measured_decides_nothing():
    assert mean([np.array([]), np.ones(3)]) == NOTHING
    assert proportion(np.zeros(0), []) == NOTHING
    for check in (lambda e: above("", "", e), lambda e: similar("", "", e, 1), lambda e: agrees("", "", e, 1)):
        assert check(NOTHING).verdict is Verdict.NOT_DECIDED


def test_proportion_is_the_sign_test():
    # 2 P(X >= 9 | n = 10, p = 1/2) = 22/1024 < .05, but 2 P(X >= 8) = 112/1024 > .05.
    nine, eight = (proportion(np.arange(10) < hits, range(10)) for hits in (9, 8))
    assert nine.low > 0.5
    assert eight.low < 0.5 < eight.value
    expected = binomtest(9, 10).proportion_ci()
    assert nine == Estimate(0.9, pytest.approx(expected.low), pytest.approx(expected.high))


def test_trials_of_a_group_are_no_independent_trials():
    hits = np.repeat([1, 1, 1, 1, 1, 1, 1, 0], 50)
    groups = [place // 50 for place in range(400)]
    of_groups, by_hand = proportion(hits, groups), proportion(hits[::50], range(8))
    assert (of_groups.low, of_groups.high) == (
        pytest.approx(by_hand.low, abs=0.06),
        pytest.approx(by_hand.high, abs=0.06),
    )
    assert proportion(hits, range(400)).low > 0.8 > of_groups.low
    # Trials that do not depend on their group count each; where all are the same, groups do.
    mixed = np.random.default_rng(0).random(400) < 0.7
    assert proportion(mixed, groups).low == pytest.approx(proportion(mixed, range(400)).low, abs=0.05)
    assert proportion(np.ones(400), groups) == proportion(np.ones(8), range(8))


HOLDS, FAILS, OPEN = Verdict.HOLDS, Verdict.DOES_NOT_HOLD, Verdict.NOT_DECIDED


@pytest.mark.parametrize(
    ("low", "high", "is_above", "is_similar", "does_agree"),
    [
        (0.2, 0.4, HOLDS, HOLDS, FAILS),
        (-0.4, -0.2, FAILS, HOLDS, FAILS),
        (-0.1, 0.1, OPEN, HOLDS, HOLDS),
        (-0.8, 0.8, OPEN, OPEN, OPEN),
        (0.6, 0.8, HOLDS, FAILS, FAILS),
        (-0.8, -0.6, FAILS, FAILS, FAILS),
        (0.4, 0.6, HOLDS, OPEN, FAILS),
    ],
)
def test_verdicts(low, high, is_above, is_similar, does_agree):
    estimate = Estimate((low + high) / 2, low, high)
    assert above("", "", estimate).verdict is is_above
    assert similar("", "", estimate, 0.5).verdict is is_similar
    assert agrees("", "", estimate, 0.5).verdict is does_agree


def test_threshold():
    assert above("", "", Estimate(0.4, 0.3, 0.45), 0.5).verdict is FAILS


def test_numbers_that_cannot_be_trusted_decide_nothing():
    certain = Estimate(0.4, 0.3, 0.45)
    for check in (lambda **more: above("", "", certain, **more), lambda **more: similar("", "", certain, 1, **more)):
        assert check().verdict is HOLDS
        doubtful = check(doubt="k-hat 0.80 is above 0.55")
        assert (doubtful.verdict, doubtful.doubt) == (OPEN, "k-hat 0.80 is above 0.55")
    assert above("", "", Estimate(-0.4, -0.5, -0.3), doubt="few").verdict is OPEN


def test_two_bounds_decide_what_lies_outside_both():
    high, low, zero = Estimate(0.4, 0.3, 0.5), Estimate(-0.4, -0.5, -0.3), Estimate(0.0, -0.1, 0.1)
    assert between(low, high) == Estimate(-0.4, -0.5, 0.5)
    for least, most, expected in ((high, high, HOLDS), (low, low, FAILS), (low, high, OPEN), (zero, high, OPEN)):
        assert above("", "", between(least, most)).verdict is expected
    assert similar("", "", between(zero, zero), 0.2).verdict is HOLDS
    assert similar("", "", between(zero, high), 0.2).verdict is OPEN


def test_a_statistic_of_groups_has_the_interval_of_the_mean_that_it_is():
    values, groups = np.random.default_rng(0).normal(5, 2, 60), [place // 3 for place in range(60)]
    sums = torch.from_numpy(values).view(20, 3).sum(1)
    found = of_groups([lambda counts: (counts @ sums) / (3 * counts.sum(-1))], [groups])
    assert found == pytest.approx(mean([values], groups=[groups]))


def test_resamples_without_a_number_are_left_out():
    """Of two groups, half of the resamples have one of them alone."""
    found = of_groups([lambda counts: torch.where(counts.amax(-1) > 1, torch.nan, 3.0)], [[0, 1]])
    assert found == Estimate(3, 3, 3)
    assert math.isnan(of_groups([lambda counts: counts.sum(-1)], [[0, 0]]).low)
