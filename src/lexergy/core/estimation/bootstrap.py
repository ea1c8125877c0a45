"""Standard errors by the bootstrap."""

from collections.abc import Callable, Hashable, Sequence

import torch
from torch import Tensor

from lexergy.errors import LexergyError


def bootstrap_std_error(
    values: Tensor,  # (B,)
    seed: int,
    *,
    statistic: Callable[[Tensor], Tensor] = lambda resampled: resampled.mean(dim=-1),  # (R, B) -> (R,)
    num_resamples: int = 1000,
) -> float:
    """Standard deviation of a statistic over windows drawn again with replacement (Efron 1979).

    `statistic` reduces the last dimension, all resamples at once. A paired comparison is the bootstrap of the
    differences per window. Windows count as independent. NaN for a single window and for non-finite values.
    """
    if values.ndim != 1 or len(values) == 0:
        raise LexergyError(
            f"values to bootstrap have shape {tuple(values.shape)}; expected one number per window, (B,)."
        )
    if len(values) == 1:
        return float("nan")
    generator = torch.Generator().manual_seed(seed)
    indices = torch.randint(len(values), (num_resamples, len(values)), generator=generator)  # (R, B)
    statistics = statistic(values.detach().double().cpu()[indices])  # (R,)
    return float(statistics.std())


def grouped_std_error(
    values: Tensor,  # (N,)
    groups: Sequence[Hashable],  # N
    seed: int,
    *,
    num_resamples: int = 1000,
) -> float:
    """Standard error of the mean of values that are alike within a group: whole groups are drawn again.

    NaN for a single group.
    """
    counts, membership = group_counts(groups, seed, num_resamples)  # (R, G), (N,)
    num_groups = counts.shape[1]
    if num_groups == 1:
        return float("nan")
    values = values.detach().double().cpu()
    sums = values.new_zeros(num_groups).index_add_(0, membership, values)  # (G,)
    sizes = torch.bincount(membership, minlength=num_groups).double()  # (G,)
    return float((counts @ sums / (counts @ sizes)).std())


def group_counts(groups: Sequence[Hashable], seed: int, num_resamples: int) -> tuple[Tensor, Tensor]:
    """How often each of G groups is in each resample (R, G), and to which group each element belongs (N,)."""
    numbers = {group: number for number, group in enumerate(dict.fromkeys(groups))}
    membership = torch.tensor([numbers[group] for group in groups])
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randint(len(numbers), (num_resamples, len(numbers)), generator=generator)  # (R, G)
    counts = torch.zeros(num_resamples, len(numbers), dtype=torch.double)
    return counts.scatter_add_(1, drawn, torch.ones_like(counts)), membership
