"""Metrics of a whole corpus, which are functions of sums over its sentences, with their intervals.

Accuracy, F1 and BLEU are no means over sentences: their parts are added up first, sentence by sentence. So the
bootstrap draws sentences again, adds their parts up and computes the metric anew; of two systems it draws the same
sentences (Koehn 2004).
"""

import math
from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from lexergy.core.estimation.bootstrap import group_counts
from lexergy.core.estimation.findings import BOOTSTRAP_SEED, NOTHING, Estimate, over_runs

NUM_RESAMPLES = 1000

CorpusMetric: TypeAlias = Callable[[np.ndarray], np.ndarray]
"""Sums (..., P) of the parts that sentences have -> (...)."""


def accuracy(sums: np.ndarray) -> np.ndarray:  # (..., 2): right, all
    """The share of what is right, in percent."""
    return 100 * _ratio(sums[..., 0], sums[..., 1])


def micro_f1(sums: np.ndarray) -> np.ndarray:  # (..., 3 N): right, predicted and gold entities of each of N types
    """F1 of all entities alike, in percent, as conlleval prints it."""
    return _f1(_by_type(sums).sum(-2))


def macro_f1(sums: np.ndarray) -> np.ndarray:  # (..., 3 N)
    """The mean F1 of the types, in percent (Table 4.2, Goyal 2021)."""
    return np.asarray(_f1(_by_type(sums)).mean(-1))


def mean_of(sums: np.ndarray) -> np.ndarray:  # (..., 3): sum of values, of their squares, how many
    return _ratio(sums[..., 0], sums[..., 2])


def variance_of(sums: np.ndarray) -> np.ndarray:  # (..., 3)
    """Of values around their mean."""
    return np.asarray(_ratio(sums[..., 1], sums[..., 2]) - mean_of(sums) ** 2)


def corpus_estimate(per_run: Sequence[np.ndarray], metric: CorpusMetric) -> Estimate:  # (S, P) each
    """A metric: of one run with its bootstrap over sentences, of several their mean with Student's t."""
    if any(len(parts) == 0 for parts in per_run):
        return NOTHING
    return over_runs(
        [float(metric(parts.sum(0))) for parts in per_run], _std_errors([[parts] for parts in per_run], metric)
    )


def corpus_difference(
    first: Sequence[np.ndarray], second: Sequence[np.ndarray], metric: CorpusMetric
) -> Estimate:  # (S, P) each
    """By how much the first is above the second, paired by run and by sentence."""
    pairs = list(zip(first, second, strict=True))
    if any(len(left) == 0 for left, _ in pairs):
        return NOTHING
    values = [float(metric(left.sum(0)) - metric(right.sum(0))) for left, right in pairs]
    return over_runs(values, _std_errors(pairs, metric))


def _std_errors(runs: Sequence[Sequence[np.ndarray]], metric: CorpusMetric) -> list[float]:
    """Of a metric, or of the difference of two; several runs tell their spread themselves."""
    if len(runs) > 1 or len(runs[0][0]) < 2:
        return [math.nan] * len(runs)
    counts, _ = group_counts(range(len(runs[0][0])), BOOTSTRAP_SEED, NUM_RESAMPLES)  # (R, S)
    values = [metric(counts.numpy() @ parts) for parts in runs[0]]
    return [float(np.std(values[0] - values[1] if len(values) == 2 else values[0], ddof=1))]


def _f1(counts: np.ndarray) -> np.ndarray:  # (..., 3): right, predicted, gold
    return 200 * _ratio(counts[..., 0], counts[..., 1] + counts[..., 2])


def _by_type(sums: np.ndarray) -> np.ndarray:  # (..., 3 N) -> (..., N, 3)
    return sums.reshape(*sums.shape[:-1], -1, 3)


def _ratio(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """0 of nothing is 0."""
    zeros = np.zeros(np.broadcast(part, whole).shape)
    return np.asarray(np.divide(part, whole, out=zeros, where=np.asarray(whole) != 0))
