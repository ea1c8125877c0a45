"""How well energies tell machine text from people's: threshold, ranking and calibration, with intervals.

A text counts as machine-written when its energy is positive: P(machine | x) = sigmoid(E(x)). Intervals come from the
bootstrap over documents, since windows of one document are not independent.
"""

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import torch
from torch import Tensor

from lexergy.core.estimation.bootstrap import group_counts
from lexergy.errors import LexergyError

CALIBRATION_BINS = 15  # Guo et al. 2017
NUM_RESAMPLES = 1000
WEIGHTS_AT_ONCE = 2**24  # of resamples times texts: bounds the memory, changes no result
HALF_WIDTH = NormalDist().inv_cdf(0.975)


@dataclass(frozen=True)
class Metric:
    """A number in [0, 1] with its 95 % interval, value ± 1.96 standard errors; NaN ends for one document of a class."""

    value: float
    low: float
    high: float
    std_error: float


@dataclass(frozen=True)
class ClassificationMetrics:
    """What a detector is worth. Machine text is the positive class, so a false positive is a person accused."""

    balanced_accuracy: Metric  # mean of the two classes' accuracies, at energy 0
    auc: Metric  # P(E(machine) > E(person)), ties counted half
    recall_at_1: Metric  # share of machine text recognised when at most 1 % of people's text is accused
    recall_at_5: Metric
    calibration_error: Metric  # expected calibration error of P(machine)


METRIC_NAMES = {
    "balanced_accuracy": "balanced accuracy",
    "auc": "ROC AUC",
    "recall_at_1": "recall at 1 % false positives",
    "recall_at_5": "recall at 5 % false positives",
    "calibration_error": "expected calibration error",
}
"""What people call the fields of `ClassificationMetrics`."""


def classification_metrics(
    energies: Tensor,  # (N,)
    is_machine: Tensor,  # (N,) bool
    documents: Sequence[Hashable],  # N, which document a text is from
    *,
    seed: int = 0,
    num_resamples: int = NUM_RESAMPLES,
) -> ClassificationMetrics:
    """All metrics of N texts, with intervals from whole documents drawn again with replacement (Efron 1979)."""
    energies, is_machine = energies.detach().double().cpu(), is_machine.bool().cpu()
    _check(energies, is_machine, documents)
    counts, membership = group_counts(documents, seed, num_resamples)  # (R, G), (N,)
    ranks = energies.unique(return_inverse=True)[1]  # (N,)
    statistics: dict[str, Callable[[Tensor], Tensor]] = {
        "balanced_accuracy": lambda weights: balanced_accuracy(energies > 0, is_machine, weights),
        "auc": lambda weights: roc_auc(ranks, is_machine, weights),
        "recall_at_1": lambda weights: recall_at(0.01, ranks, is_machine, weights),
        "recall_at_5": lambda weights: recall_at(0.05, ranks, is_machine, weights),
        "calibration_error": lambda weights: calibration_error(energies.sigmoid(), is_machine, weights),
    }
    once = torch.ones(1, len(energies), dtype=torch.double)
    fewest = documents_of_either(membership, is_machine)
    chunk = max(1, WEIGHTS_AT_ONCE // len(energies))
    resampled: dict[str, list[Tensor]] = {name: [] for name in statistics}
    for resamples in counts.split(chunk) if counts.shape[1] > 1 else ():
        weights = resamples[:, membership]  # (r, N)
        for name, statistic in statistics.items():
            resampled[name].append(statistic(weights))
    return ClassificationMetrics(
        **{
            name: metric_of(float(statistic(once)), torch.cat([*resampled[name], once[:0, 0]]), fewest)
            for name, statistic in statistics.items()
        }
    )


def balanced_accuracy(accused: Tensor, is_machine: Tensor, weights: Tensor) -> Tensor:  # (N,), (N,), (R, N) -> (R,)
    """Mean of the accuracies on either class; NaN where a class is missing."""
    machine, people = weights[:, is_machine], weights[:, ~is_machine]
    recall = machine @ accused[is_machine].double() / machine.sum(1)
    specificity = people @ (~accused[~is_machine]).double() / people.sum(1)
    return (recall + specificity) / 2


def roc_auc(ranks: Tensor, is_machine: Tensor, weights: Tensor) -> Tensor:  # (N,), (N,), (R, N) -> (R,)
    """P(E(machine) > E(person)) + P(equal) / 2 over pairs (Hanley & McNeil 1982)."""
    machine, people = _by_rank(ranks, is_machine, weights)  # (R, U) each
    below = people.cumsum(1) - people / 2
    return (machine * below).sum(1) / (machine.sum(1) * people.sum(1))


def recall_at(limit: float, ranks: Tensor, is_machine: Tensor, weights: Tensor) -> Tensor:  # (R, N) -> (R,)
    """The largest share of machine text recognised by a threshold that accuses at most `limit` of people's text."""
    machine, people = _by_rank(ranks, is_machine, weights)
    accused, recall = _share_at_or_above(people), _share_at_or_above(machine)
    # A little slack: 1 of 100 is 1 %, whatever the rounding.
    best = torch.where(accused <= limit + 1e-12, recall, 0.0).amax(1)
    missing = (machine.sum(1) == 0) | (people.sum(1) == 0)
    return best.masked_fill(missing, torch.nan)


def calibration_error(probabilities: Tensor, is_machine: Tensor, weights: Tensor) -> Tensor:
    """Expected calibration error (Naeini et al. 2015): (N,), (N,), (R, N) -> (R,).

    sum over bins b of |sum_{i in b} w_i (P(machine | x_i) - y_i)| with bins of equal width in P(machine). As in
    balanced accuracy both classes weigh the same, whatever their numbers: sum of w = 1/2 for each.
    """
    machine = weights * is_machine
    people = weights * ~is_machine
    weights = (machine / machine.sum(1, keepdim=True) + people / people.sum(1, keepdim=True)) / 2
    bins = (probabilities * CALIBRATION_BINS).long().clamp_max(CALIBRATION_BINS - 1)  # (N,)
    gaps = weights * (probabilities - is_machine.double())  # (R, N)
    per_bin = gaps.new_zeros(len(gaps), CALIBRATION_BINS).index_add_(1, bins, gaps)
    return per_bin.abs().sum(1)


def _by_rank(ranks: Tensor, is_machine: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    """The weight of machine text and of people's at each rank: (R, U) each."""
    empty = weights.new_zeros(len(weights), int(ranks.max()) + 1)
    return (
        empty.index_add(1, ranks[is_machine], weights[:, is_machine]),
        empty.index_add(1, ranks[~is_machine], weights[:, ~is_machine]),
    )


def _share_at_or_above(per_rank: Tensor) -> Tensor:  # (R, U) -> (R, U)
    return per_rank.flip(1).cumsum(1).flip(1) / per_rank.sum(1, keepdim=True)


def documents_of_either(membership: Tensor, is_machine: Tensor) -> int:  # (N,), (N,)
    """How many documents the smaller class has: one machine text tells little beside any number of people's."""
    return min(len(membership[is_machine].unique()), len(membership[~is_machine].unique()))


def metric_of(value: float, resampled: Tensor, num_documents: int) -> Metric:  # (R,)
    """The interval of the bootstrap; where no resample differs, that of n trials which all ended alike.

    After n successes in a row the rate is below 1 - 3/n with a probability of 5 % at most (the rule of three).
    """
    complete = resampled[~resampled.isnan()]  # those that have both classes
    std_error = float(complete.std()) if len(complete) > 1 else math.nan
    half = HALF_WIDTH * std_error
    if math.isnan(half) or num_documents < 2:  # the other class alone would look surer than it is
        return Metric(value, math.nan, math.nan, math.nan)
    if half < 1e-12:
        half = min(1.0, 3 / num_documents)
    return Metric(value, max(0.0, value - half), min(1.0, value + half), std_error)


def _check(energies: Tensor, is_machine: Tensor, documents: Sequence[Hashable]) -> None:
    if energies.ndim != 1 or energies.shape != is_machine.shape or len(energies) != len(documents):
        raise LexergyError(
            f"energies {tuple(energies.shape)}, labels {tuple(is_machine.shape)} and {len(documents)} documents; "
            "expected one of each per text, (N,)."
        )
    if is_machine.all() or not is_machine.any():
        raise LexergyError(
            "all texts are of one class; expected some of people and some of machines; give texts of both."
        )
    if energies.isnan().any():
        raise LexergyError("an energy is NaN; expected numbers; look at the text or the training that gave it.")
