"""Choosing among hypotheses by a first pass and a second score, and what the choice is worth."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from lexergy.core.estimation.bootstrap import group_counts

WEIGHTS = tuple(step / 20 for step in range(1, 21))  # .05, .1, ..., 1, Sec. 3.2, Clark et al. 2020

Value = Callable[[Tensor], Tensor]  # sums of statistics (..., S) -> the metric (...)


def combined_scores(first_pass: Tensor, log_scores: Tensor, weight: float) -> Tensor:  # (U, N) each -> (U, N)
    """f(x | s) + lambda PLL(x), Sec. 3.2, Clark et al. 2020; where there is no hypothesis the first pass is -inf."""
    return first_pass + weight * log_scores


def chosen_statistics(statistics: Tensor, chosen: Tensor) -> Tensor:  # (U, N, S), (U,) -> (U, S)
    """Those of the hypothesis chosen of each utterance."""
    return statistics[torch.arange(len(chosen)), chosen]


def choose_weight(
    first_pass: Tensor,  # (U, N)
    log_scores: Tensor,  # (U, N)
    statistics: Tensor,  # (U, N, S)
    value: Value,
    *,
    higher_is_better: bool,
    weights: tuple[float, ...] = WEIGHTS,
) -> float:
    """The weight whose choices have the best value; of equally good ones the smallest."""
    values = torch.stack(
        [
            value(chosen_statistics(statistics, combined_scores(first_pass, log_scores, weight).argmax(1)).sum(0))
            for weight in weights
        ]
    )
    return weights[int(values.argmax() if higher_is_better else values.argmin())]


class Comparison(NamedTuple):
    """The difference of two systems' values, with its 95 % interval and a two-sided p-value."""

    difference: float  # first minus second
    low: float
    high: float
    p_value: float


def matched_pairs(
    first: Tensor, second: Tensor, value: Value, seed: int, *, num_resamples: int = 1000
) -> Comparison:  # (U, S) each
    """Bootstrap over utterances, the same ones for both systems (Bisani & Ney 2004; Koehn 2004).

    The p-value is twice the share of resamples on the other side of 0, at least 1 / (R + 1) of them.
    """
    counts, _ = group_counts(range(len(first)), seed, num_resamples)  # (R, U)
    differences = value(counts @ first) - value(counts @ second)  # (R,)
    low, high = torch.quantile(differences, torch.tensor([0.025, 0.975], dtype=differences.dtype)).tolist()
    at_most, at_least = (1 + int((differences <= 0).sum())), (1 + int((differences >= 0).sum()))
    p_value = min(1.0, 2 * min(at_most, at_least) / (num_resamples + 1))
    return Comparison(float(value(first.sum(0)) - value(second.sum(0))), low, high, p_value)
