"""Standard errors by the bootstrap."""

from collections.abc import Callable, Hashable, Sequence

import torch
from torch import Tensor

from lexergy.errors import LexergyError


def bootstrap_std_error(
    values: Tensor,  # (N,)
    seed: int,
    *,
    groups: Sequence[Hashable] | None = None,  # N
    statistic: Callable[[Tensor], Tensor] = lambda resampled: resampled.mean(dim=-1),  # (..., N) -> (...)
    num_resamples: int = 1000,
) -> float:
    """Standard deviation of a statistic over values drawn again with replacement (Efron 1979).

    Values of one group are alike (windows of one document, for instance): whole groups are drawn again (the cluster
    bootstrap, Davison and Hinkley 1997, Sec. 3.8). Without `groups` each value counts as independent. `statistic`
    reduces the last dimension. A paired comparison is the bootstrap of the differences. NaN for a single value or
    group and for non-finite values.
    """
    if values.ndim != 1 or len(values) == 0 or (groups is not None and len(groups) != len(values)):
        named = "" if groups is None else f" and {len(groups)} groups"
        raise LexergyError(
            f"values to bootstrap have shape {tuple(values.shape)}{named}; expected one number per window, "
            "(N,), and a group for each where groups are given."
        )
    values = values.detach().double().cpu()
    counts, membership = group_counts(range(len(values)) if groups is None else groups, seed, num_resamples)  # (R, G)
    if counts.shape[1] == 1:
        return float("nan")
    repeats = counts.long()[:, membership]  # (R, N)
    return float(torch.stack([statistic(values.repeat_interleave(times)) for times in repeats]).std())


def corrected_std_error(values: Tensor, num_test: int, num_train: int) -> float:  # (J,)
    """Standard error of a mean over J random splits of the same data, whose training sets overlap.

    sqrt((1/J + n_test / n_train) s^2), Nadeau and Bengio 2003, with s^2 the variance of the J values: the plain
    s / sqrt(J) takes them for independent, and shrinks with every split of the same data. NaN for a single split.
    """
    if values.ndim != 1 or len(values) == 0 or min(num_test, num_train) < 1:
        raise LexergyError(
            f"values of shape {tuple(values.shape)} from {num_train} training and {num_test} test examples; expected "
            "one number per split, (J,), and at least one example of either kind."
        )
    if len(values) == 1:
        return float("nan")
    return float(((1 / len(values) + num_test / num_train) * values.detach().double().var()).sqrt())


def resampled_means(
    values: Tensor,  # (N,)
    groups: Sequence[Hashable],  # N
    seed: int,
    num_resamples: int = 1000,
) -> Tensor:
    """The mean over values in each resample of whole groups, (R,): those whose spread `bootstrap_std_error` gives.

    From sums over groups alone, so many means cost one product of matrices.
    """
    counts, membership = group_counts(groups, seed, num_resamples)  # (R, G), (N,)
    sums, sizes = (
        torch.zeros(counts.shape[1], dtype=torch.double).index_add_(0, membership, column)
        for column in (values.double(), torch.ones(len(values), dtype=torch.double))
    )  # (G,)
    return (counts @ sums) / (counts @ sizes)


def group_numbers(groups: Sequence[Hashable]) -> Tensor:  # N -> (N,)
    """Groups as numbers from 0, in the order in which they first come."""
    numbers = {group: number for number, group in enumerate(dict.fromkeys(groups))}
    return torch.tensor([numbers[group] for group in groups])


def group_counts(groups: Sequence[Hashable], seed: int, num_resamples: int) -> tuple[Tensor, Tensor]:
    """How often each of G groups is in each resample (R, G), and to which group each element belongs (N,)."""
    membership = group_numbers(groups)
    num_groups = int(membership.max()) + 1
    generator = torch.Generator().manual_seed(seed)
    drawn = torch.randint(num_groups, (num_resamples, num_groups), generator=generator)  # (R, G)
    counts = torch.zeros(num_resamples, num_groups, dtype=torch.double)
    return counts.scatter_add_(1, drawn, torch.ones_like(counts)), membership
