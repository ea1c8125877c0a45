"""Are two sets of texts alike? The energy distance of their features, and a permutation test."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from lexergy.core.estimation.bootstrap import group_numbers

NUM_PERMUTATIONS = 999
_ROUNDING = 1e-12


def energy_distance(first: Tensor, second: Tensor) -> float:  # (n, F), (m, F)
    """2 E|X - Y| - E|X - X'| - E|Y - Y'|, 0 where both have one distribution (Szekely and Rizzo 2004)."""
    between = torch.cdist(first.double(), second.double()).mean()
    within = sum(torch.cdist(own.double(), own.double()).mean() for own in (first, second))
    return float(2 * between - within)


@dataclass(frozen=True)
class GroupPairs:
    """A mean over pairs of texts from different groups: documents, for instance."""

    sums: Tensor  # (G, G) over the pairs of two groups, nothing of a group with itself
    counts: Tensor  # (G, G)

    def mean(self, weights: Tensor) -> Tensor:  # (..., G) -> (...)
        """Each group counted as often as its weight says; two copies of it are no pair. NaN where there is none."""
        weights = weights.double()
        sums, counts = (((weights @ pairs) * weights).sum(-1) for pairs in (self.sums, self.counts))
        return sums / counts


def paired_energy_distance(
    first: Tensor,  # (N, F)
    second: Tensor,  # (N, F)
    groups: Sequence[Hashable],  # N
) -> GroupPairs:
    """The energy distance of two writers on the same prompts, from pairs of texts of different groups alone.

    mean over i, j of |x_i - y_j| + |y_i - x_j| - |x_i - x_j| - |y_i - y_j|. Without a bias, since texts of different
    groups are independent and those of a prompt or a group are not: 0 in expectation where both writers have one
    distribution, and 0 exactly where they are the same.
    """
    first, second = first.double(), second.double()
    between = torch.cdist(first, second)  # (N, N)
    distances = between + between.T - torch.cdist(first, first) - torch.cdist(second, second)
    members = torch.nn.functional.one_hot(group_numbers(groups)).double()  # (N, G)
    sizes = members.sum(0)  # (G,)
    apart = 1 - torch.eye(len(sizes), dtype=torch.double)
    return GroupPairs(apart * (members.T @ distances @ members), apart * torch.outer(sizes, sizes))


def two_sample_p_value(
    first: Tensor,  # (n, F)
    second: Tensor,  # (m, F)
    *,
    seed: int = 0,
    num_permutations: int = NUM_PERMUTATIONS,
) -> float:
    """How often a random split of all rows has an energy distance as large as that of the given one.

    Columns are divided by their median deviation from the median of both sets together, which no permutation changes.
    (1 + #{distances as large}) / (permutations + 1): exact where the rows are exchangeable.
    """
    rows = _standardised(torch.cat((first, second)).double())
    distances = torch.cdist(rows, rows)  # (n + m, n + m)
    generator = torch.Generator().manual_seed(seed)
    orders = [torch.randperm(len(rows), generator=generator) for _ in range(num_permutations)]
    is_first = torch.zeros(num_permutations + 1, len(rows), dtype=torch.double)
    is_first[0, : len(first)] = 1
    for row, order in enumerate(orders, start=1):
        is_first[row, order[: len(first)]] = 1
    statistics = _distances(is_first, distances)
    as_large = statistics[1:] >= statistics[0] - _ROUNDING
    return float(1 + as_large.sum()) / (num_permutations + 1)


def _distances(is_first: Tensor, distances: Tensor) -> Tensor:  # (R, N), (N, N) -> (R,)
    shares = is_first / is_first.sum(1, keepdim=True)
    rest = 1 - is_first
    shares = shares - rest / rest.sum(1, keepdim=True)  # 1/n of the first, -1/m of the second
    return -((shares @ distances) * shares).sum(1)


def _standardised(rows: Tensor) -> Tensor:  # (N, F)
    centred = rows - rows.median(0).values
    scale = centred.abs().median(0).values
    wide = torch.where(scale > 0, scale, centred.abs().mean(0))
    return centred / torch.where(wide > 0, wide, 1.0)
