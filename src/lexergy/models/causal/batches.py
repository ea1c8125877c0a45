"""Many prefixes with many samples each, a batch at a time; how they are cut changes speed, never results."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor

Columns = TypeVar("Columns", bound=tuple[Tensor | None, ...])


def in_batches(
    compute: Callable[[slice, int, int], Columns],
    num_prefixes: int,
    num_samples: int,
    rows_per_batch: int,
    rows_of_a_sample: int = 1,
) -> Columns:
    """What `compute(prefixes, first sample, how many)` gives for all, at most `rows_per_batch` rows at a time.

    A sample of several rows (a run of SMC) is never divided.
    """
    at_once = min(num_samples, max(1, rows_per_batch // rows_of_a_sample))
    prefixes = max(1, rows_per_batch // (at_once * rows_of_a_sample))
    groups = []
    for start in range(0, num_prefixes, prefixes):
        group = slice(start, start + prefixes)
        parts = [compute(group, done, min(at_once, num_samples - done)) for done in range(0, num_samples, at_once)]
        groups.append(joined(parts, 1))
    return joined(groups, 0)


def joined(parts: Sequence[Columns], dim: int) -> Columns:
    """Named tuples of tensors, one after the other."""
    if len(parts) == 1:
        return parts[0]
    make: Any = type(parts[0])
    return make(*(None if column[0] is None else torch.cat(column, dim) for column in zip(*parts, strict=True)))
