"""Are two sets of texts alike? The energy distance of their features, and a permutation test."""

import torch
from torch import Tensor

NUM_PERMUTATIONS = 999
_ROUNDING = 1e-12


def energy_distance(first: Tensor, second: Tensor) -> float:  # (n, F), (m, F)
    """2 E|X - Y| - E|X - X'| - E|Y - Y'|, 0 where both have one distribution (Szekely and Rizzo 2004)."""
    between = torch.cdist(first.double(), second.double()).mean()
    within = sum(torch.cdist(own.double(), own.double()).mean() for own in (first, second))
    return float(2 * between - within)


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
