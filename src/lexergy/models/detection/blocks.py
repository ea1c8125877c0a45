"""Texts of any length as blocks that a model can read at once."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor


class Block(NamedTuple):
    """Tokens start .. end - 1 of a text."""

    start: int
    end: int


def intersecting_blocks(length: int, size: int, limit: int | None = None) -> list[Block]:
    """Blocks of `size` tokens that each share about half with the next and together hold all `length` tokens.

    A text no longer than `size` is one block. Of more than `limit` blocks, that many are kept, evenly spread
    from the first to the last.
    """
    if length <= size:
        return [Block(0, length)]
    count = -(-2 * (length - size) // size) + 1  # steps of at most half a block
    kept = range(count) if limit is None or count <= limit else _spread(count, limit)
    starts = [index * (length - size) // (count - 1) for index in kept]
    return [Block(start, start + size) for start in starts]


def _spread(count: int, limit: int) -> list[int]:
    return [count // 2] if limit == 1 else [index * (count - 1) // (limit - 1) for index in range(limit)]


def batches_by_length(lengths: Sequence[int], most_tokens: int) -> Iterator[list[int]]:
    """Places of rows of similar length, at most `most_tokens` of them with padding in each batch."""
    batch: list[int] = []
    for place in sorted(range(len(lengths)), key=lambda place: lengths[place]):
        if batch and lengths[place] * (len(batch) + 1) > most_tokens:
            yield batch
            batch = []
        batch.append(place)
    if batch:
        yield batch


def mean_by_token(length: int, blocks: Sequence[Block], values: Sequence[Tensor]) -> Tensor:
    """The mean over the blocks that hold a token of its value in them: (length,), NaN where none does."""
    total, count = torch.zeros(length, dtype=torch.double), torch.zeros(length, dtype=torch.double)
    for block, own in zip(blocks, values, strict=True):
        total[block.start : block.end] += own
        count[block.start : block.end] += 1
    return total / count
