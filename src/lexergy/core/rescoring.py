"""Choosing among hypotheses by a first pass and the scores of models, and what the choice is worth."""

from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from lexergy.core.estimation.bootstrap import group_counts

WEIGHTS = tuple(step / 20 for step in range(1, 21))  # .05, .1, ..., 1, Sec. 3.2, Clark et al. 2020
FREQUENCY_WEIGHTS = (0.0, 0.25, 0.5, 0.75, 1.0)
MOST_ROUNDS = 10

Value = Callable[[Tensor], Tensor]  # sums of statistics (..., S) -> the metric (...)


class ModelScores(NamedTuple):
    """What a model says of each hypothesis: its log-score, and how frequent its tokens are without any context."""

    log_scores: Tensor  # (U, N), NaN where there is none: a text without tokens, or one that was not read
    log_frequencies: Tensor  # (U, N)


class Weight(NamedTuple):
    """lambda, and the share mu of the log-frequencies that is taken away: the model adds lambda (PLL - mu log f)."""

    score: float
    frequencies: float = 0.0


class Dev(NamedTuple):
    """What weights are chosen on; where there is no hypothesis, or none to choose, the first pass is -inf."""

    first_pass: Tensor  # (U, N)
    statistics: Tensor  # (U, N, S)
    value: Value
    higher_is_better: bool


def combined_scores(first_pass: Tensor, models: Sequence[ModelScores], weights: Sequence[Weight]) -> Tensor:  # (U, N)
    """f(x | s) + sum_m lambda_m (PLL_m(x) - mu_m log f_m(x)).

    One model with mu = 0 is Sec. 3.2 of Clark et al. 2020. The first pass has learnt from its own transcripts how
    frequent words are, so that mu = 1 counts only what the context says. A text without a score takes the worst of its
    utterance, so that silence is never preferred for being short.
    """
    combined = first_pass
    for model, weight in zip(models, weights, strict=True):
        scores = model.log_scores - weight.frequencies * model.log_frequencies
        worst = scores.nan_to_num(nan=torch.inf).amin(1, keepdim=True).nan_to_num(posinf=0.0)
        combined = combined + weight.score * torch.where(scores.isnan(), worst, scores)
    return combined


def chosen_statistics(statistics: Tensor, chosen: Tensor) -> Tensor:  # (U, N, S), (U,) -> (U, S)
    """Those of the hypothesis chosen of each utterance."""
    return statistics[torch.arange(len(chosen)), chosen]


def choose_weights(
    dev: Dev, models: Sequence[ModelScores], *, frequency_weights: Sequence[float] = (0.0,)
) -> tuple[Weight, ...]:
    """The weights whose choices have the best value on dev; of equally good ones the smallest.

    One model has the whole grid. Several are added one after the other, and then each is chosen again with the others
    held, until none changes: two numbers a model from a coarse grid leave little room to fit the dev list by chance.
    """
    weights: list[Weight] = []
    for count in range(1, len(models) + 1):
        grid = _grid(frequency_weights, with_none=count > 1)
        weights.append(Weight(0.0))
        for _ in range(MOST_ROUNDS):
            before = list(weights)
            for place in reversed(range(count)):
                weights[place] = _best(dev, models[:count], weights, place, grid)
            if count == 1 or weights == before:
                break
    return tuple(weights)


def _grid(frequency_weights: Sequence[float], *, with_none: bool) -> list[Weight]:
    grid = [Weight(score, frequencies) for score in WEIGHTS for frequencies in frequency_weights]
    return [Weight(0.0), *grid] if with_none else grid


def _best(
    dev: Dev, models: Sequence[ModelScores], weights: Sequence[Weight], place: int, grid: Sequence[Weight]
) -> Weight:
    """The best weight of the model at a place, the others held."""
    rest = [number for number in range(len(models)) if number != place]
    held = combined_scores(dev.first_pass, [models[number] for number in rest], [weights[number] for number in rest])
    sign = -1.0 if dev.higher_is_better else 1.0
    costs = []
    for weight in grid:
        chosen = combined_scores(held, [models[place]], [weight]).argmax(1)
        costs.append(sign * float(dev.value(chosen_statistics(dev.statistics, chosen).sum(0))))
    return grid[costs.index(min(costs))]


def best_ranked(scores: Tensor, keep: int) -> Tensor:  # (U, N) -> (U, N) bool
    """Whether a hypothesis is one of the `keep` best of its utterance; of equal ones the earlier is."""
    order = scores.sort(dim=1, descending=True, stable=True).indices
    ranks = torch.empty_like(order).scatter_(1, order, torch.arange(scores.shape[1]).expand_as(order))
    return (ranks < keep) & ~scores.isneginf()


def with_rest_below(scores: Tensor, kept: Tensor, earlier: Tensor) -> Tensor:  # (U, N) each
    """The scores of those that were kept; below them, in their order and at their distances, all that were not."""
    worst = scores.masked_fill(~kept, torch.inf).amin(1, keepdim=True)
    best_of_rest = earlier.masked_fill(kept, -torch.inf).amax(1, keepdim=True)
    return torch.where(kept, scores, earlier - best_of_rest.nan_to_num(neginf=0.0) + worst - 1)


class Comparison(NamedTuple):
    """The difference of two systems' values, with its 95 % interval and a two-sided p-value."""

    difference: float  # first minus second
    low: float
    high: float
    p_value: float


def matched_pairs(
    first: Tensor,  # (U, S)
    second: Tensor,  # (U, S)
    value: Value,
    groups: Sequence[Hashable],  # U
    seed: int,
    *,
    num_resamples: int = 1000,
) -> Comparison:
    """Bootstrap over groups of utterances, the same ones for both systems (Bisani & Ney 2004; Koehn 2004).

    A group is whatever varies from test to test: the utterances of one speaker are alike. The p-value is twice the
    share of resamples on the other side of 0, at least 1 / (R + 1) of them.
    """
    counts, membership = group_counts(groups, seed, num_resamples)  # (R, G), (U,)
    sums = [
        statistics.new_zeros(counts.shape[1], statistics.shape[1]).index_add_(0, membership, statistics)
        for statistics in (first, second)
    ]  # (G, S)
    differences = value(counts @ sums[0]) - value(counts @ sums[1])  # (R,)
    low, high = torch.quantile(differences, torch.tensor([0.025, 0.975], dtype=differences.dtype)).tolist()
    at_most, at_least = (1 + int((differences <= 0).sum())), (1 + int((differences >= 0).sum()))
    p_value = min(1.0, 2 * min(at_most, at_least) / (num_resamples + 1))
    return Comparison(float(value(first.sum(0)) - value(second.sum(0))), low, high, p_value)
