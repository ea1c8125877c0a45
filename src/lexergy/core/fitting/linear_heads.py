"""Linear energies of features by penalised noise contrastive estimation, and what they are worth on held-out groups."""

from collections.abc import Callable, Hashable, Sequence
from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor

from lexergy.core.fitting.convex import minimise
from lexergy.core.losses import nce_loss
from lexergy.errors import LexergyError

PairLoss: TypeAlias = Callable[[Tensor, Tensor], Tensor]
"""Of people's energies (N,) and those of the LM's texts (N, K)."""


class LinearHead(NamedTuple):
    """E(x) = bias + weight . f(x)."""

    weight: Tensor  # (F,)
    bias: Tensor  # ()

    def energy(self, features: Tensor) -> Tensor:  # (..., F) -> (...)
        return features @ self.weight + self.bias


def fit_linear_head(
    features: Tensor,  # (N, 1 + K, F)
    penalty: Tensor,  # (F,)
    loss: PairLoss = nce_loss,
) -> LinearHead:
    """argmin of loss + 1/2 sum_j penalty_j weight_j^2 over N of people's texts, each first, with K of the LM's.

    `nce_loss` makes this logistic regression with a normal prior of variance 1 / (N penalty_j): convex, so that there
    is one answer, and nothing to stop early. Features should be of one size (standardised).
    """

    def objective(point: Tensor) -> Tensor:  # (1 + F,)
        energies = LinearHead(point[1:], point[0]).energy(features)  # (N, 1 + K)
        return loss(energies[:, 0], energies[:, 1:]) + (penalty * point[1:] ** 2).sum() / 2

    point = minimise(objective, features.new_zeros(1 + features.shape[-1]), max_iterations=200)
    return LinearHead(point[1:], point[0])


def folds_of(groups: Sequence[Hashable], num_folds: int, seed: int) -> Tensor:  # (N,)
    """In which fold each element is: whole groups, dealt out in turn from a shuffled pile."""
    numbers = {group: number for number, group in enumerate(dict.fromkeys(groups))}
    if len(numbers) < num_folds:
        raise LexergyError(
            f"{num_folds} folds of {len(numbers)} documents; expected at least one document for each fold; use fewer "
            "folds, or more documents."
        )
    shuffled = torch.randperm(len(numbers), generator=torch.Generator().manual_seed(seed))
    fold = torch.empty(len(numbers), dtype=torch.long)
    fold[shuffled] = torch.arange(len(numbers)) % num_folds
    return fold[torch.tensor([numbers[group] for group in groups])]


def held_out_energies(
    features: Tensor,  # (N, 1 + K, F)
    penalty: Tensor,  # (F,)
    folds: Tensor,  # (N,)
    loss: PairLoss = nce_loss,
    kept: Tensor | None = None,  # (N,) bool
) -> Tensor:  # (N, 1 + K)
    """The energies of each fold's texts by the head that was fitted to the other folds, or to those `kept` of them."""
    energies = features.new_empty(features.shape[:-1])
    for fold in folds.unique():
        out = folds == fold
        used = ~out if kept is None else ~out & kept
        energies[out] = fit_linear_head(features[used], penalty, loss).energy(features[out])
    return energies


def learning_curve(
    features: Tensor,  # (N, 1 + K, F)
    penalty: Tensor,  # (F,)
    folds: Tensor,  # (N,)
    shares: Sequence[float],
    seed: int,
    loss: PairLoss = nce_loss,
) -> list[float]:
    """The held-out loss of heads that were fitted to a share of the pairs, the prior staying what it is."""
    places = torch.rand(len(features), generator=torch.Generator().manual_seed(seed))
    losses = []
    for share in shares:
        energies = held_out_energies(features, penalty / share, folds, loss, kept=places < share)
        losses.append(float(loss(energies[:, 0], energies[:, 1:])))
    return losses
