"""Estimates with their 95 % intervals, and what these say of a finding."""

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from statistics import NormalDist
from typing import NamedTuple, TypeAlias

import numpy as np
import torch
from scipy.special import betaincinv, stdtrit  # quantiles of beta and t; scipy.stats takes half a second to import
from torch import Tensor

from lexergy.core.estimation.bootstrap import bootstrap_std_error, group_counts

CONFIDENCE = 0.95
_UPPER_TAIL = (1 + CONFIDENCE) / 2
BOOTSTRAP_SEED = 0
NUM_RESAMPLES = 1000


class Verdict(StrEnum):
    HOLDS = "HOLDS"
    DOES_NOT_HOLD = "DOES NOT HOLD"
    NOT_DECIDED = "NOT DECIDED"


class Estimate(NamedTuple):
    """A number and its 95 % confidence interval; NaN ends where there is too little to tell."""

    value: float
    low: float
    high: float

    @property
    def half_width(self) -> float:
        """Of the interval."""
        return (self.high - self.low) / 2


Groups: TypeAlias = Sequence[Sequence[Hashable]]
"""For each run and each of its windows what it belongs to."""

GroupStatistic: TypeAlias = Callable[[Tensor], Tensor]
"""How often each group counts (..., G), in the order in which groups first come, -> (...)."""

NOTHING = Estimate(math.nan, math.nan, math.nan)


@dataclass(frozen=True)
class Finding:
    """A sentence of the paper, the number that tests it, and what comes of it."""

    sentence: str
    verdict: Verdict
    quantity: str  # what the estimate is of, with its unit
    estimate: Estimate
    doubt: str | None = None  # why nothing is decided, where the interval alone does not say


def mean(
    per_run: Sequence[np.ndarray],
    seed: int = BOOTSTRAP_SEED,
    *,
    groups: Groups | None = None,
) -> Estimate:
    """The mean over windows: of one run by bootstrap over windows, of several by Student's t over the runs.

    `groups` are what is drawn again in place of windows: documents, for instance.
    """
    if any(len(values) == 0 for values in per_run):
        return NOTHING
    std_errors = [
        std_error(values, seed, groups=None if groups is None else groups[run]) for run, values in enumerate(per_run)
    ]
    return over_runs([float(np.mean(values)) for values in per_run], std_errors)


def mean_difference(
    first: Sequence[np.ndarray], second: Sequence[np.ndarray], *, groups: Groups | None = None
) -> Estimate:
    """By how much the first is above the second on average, paired by window in each run."""
    return mean([left - right for left, right in zip(first, second, strict=True)], groups=groups)


def mean_distance_difference(
    first: Sequence[np.ndarray], second: Sequence[np.ndarray], *, groups: Groups | None = None
) -> Estimate:
    """|mean of the first| - |mean of the second|, as one mean, so that its interval is that of paired differences."""
    signed = ([np.sign(values.mean()) * values for values in runs] for runs in (first, second))
    return mean_difference(*signed, groups=groups)


def of_groups(per_run: Sequence[GroupStatistic], groups: Groups, seed: int = BOOTSTRAP_SEED) -> Estimate:
    """A number that is no mean over windows: its interval by drawing whole groups again, as in `mean`.

    Resamples of which there is no such number (NaN) are left out. A paired comparison is the statistic of a difference.
    """
    values, std_errors = [], []
    for statistic, own in zip(per_run, groups, strict=True):
        counts, _ = group_counts(own, seed, NUM_RESAMPLES)  # (R, G)
        values.append(float(statistic(torch.ones(counts.shape[1], dtype=torch.double))))
        drawn = statistic(counts)  # (R,)
        std_errors.append(float(drawn[drawn.isfinite()].std()) if counts.shape[1] > 1 else math.nan)
    return over_runs(values, std_errors)


def between(least: Estimate, most: Estimate) -> Estimate:
    """Of what is known by two bounds: the lower one's value, and all that their intervals leave open."""
    return Estimate(least.value, least.low, most.high)


def std_error(values: np.ndarray, seed: int = BOOTSTRAP_SEED, *, groups: Sequence[Hashable] | None = None) -> float:
    """Standard error of the mean over windows (N,), by the bootstrap over windows or over groups of them."""
    return bootstrap_std_error(torch.from_numpy(np.ascontiguousarray(values, dtype=float)), seed, groups=groups)


def over_runs(values: Sequence[float], std_errors: Sequence[float]) -> Estimate:
    """One run's value with its own standard error; from two on, their mean and spread (Student's t)."""
    value, count = float(np.mean(values)), len(values)
    if count == 1:
        half = NormalDist().inv_cdf(_UPPER_TAIL) * std_errors[0]
    else:
        half = float(stdtrit(count - 1, _UPPER_TAIL)) * float(np.std(values, ddof=1)) / math.sqrt(count)
    return Estimate(value, value - half, value + half)


def proportion(hits: np.ndarray, groups: Sequence[Hashable], seed: int = BOOTSTRAP_SEED) -> Estimate:  # (N,)
    """A share of trials with its exact interval (Clopper and Pearson 1934): the sign test.

    Trials of a group are alike, so they count as the p (1 - p) / error^2 independent ones that would have the same
    error over groups, at most N, and as the number of groups where they are all the same (Korn and Graubard 1998).
    """
    if len(hits) == 0:
        return NOTHING
    share, num_groups = float(np.mean(hits)), len(set(groups))
    trials = float(num_groups)
    if num_groups < len(hits):
        error = std_error(hits, seed, groups=groups)
        trials = min(share * (1 - share) / error**2, len(hits)) if error > 0 else num_groups
    return clopper_pearson(share, trials)


def clopper_pearson(share: float, trials: float) -> Estimate:
    """The exact interval of a share of so many trials, which need not be a whole number of them."""
    successes = share * trials
    low = float(betaincinv(successes, trials - successes + 1, 1 - _UPPER_TAIL)) if successes > 0 else 0.0
    high = float(betaincinv(successes + 1, trials - successes, _UPPER_TAIL)) if successes < trials else 1.0
    return Estimate(share, low, high)


def above(
    sentence: str, quantity: str, estimate: Estimate, threshold: float = 0.0, *, doubt: str | None = None
) -> Finding:
    """Holds when the whole interval lies above the threshold, does not when it lies below.

    `doubt`, here and below, is why the numbers behind the estimate cannot be trusted: then nothing is decided.
    """
    return _decided(sentence, quantity, estimate, estimate.low > threshold, estimate.high < threshold, doubt)


def similar(sentence: str, quantity: str, estimate: Estimate, margin: float, *, doubt: str | None = None) -> Finding:
    """Holds when the whole interval is closer to 0 than `margin`, does not when it is farther away."""
    holds = -margin < estimate.low and estimate.high < margin
    fails = estimate.low > margin or estimate.high < -margin
    return _decided(sentence, quantity, estimate, holds, fails, doubt)


def agrees(sentence: str, quantity: str, estimate: Estimate, margin: float) -> Finding:
    """Holds when 0 is in the interval and the interval shorter than `margin` either way; does not when 0 is outside."""
    fails = estimate.low > 0 or estimate.high < 0
    holds = not fails and estimate.high - estimate.low < 2 * margin
    return _decided(sentence, quantity, estimate, holds, fails, None)


def _decided(sentence: str, quantity: str, estimate: Estimate, holds: bool, fails: bool, doubt: str | None) -> Finding:
    """From an interval that may do neither; NaN ends do neither."""
    verdict = Verdict.HOLDS if holds else Verdict.DOES_NOT_HOLD if fails else Verdict.NOT_DECIDED
    return Finding(sentence, Verdict.NOT_DECIDED if doubt else verdict, quantity, estimate, doubt)
