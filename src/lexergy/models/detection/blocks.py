"""Texts of any length as blocks that a model can read at once."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor


class Block(NamedTuple):
    """Tokens start .. end - 1 of a text."""

    start: int
    end: int


def intersecting_blocks(length: int, size: int) -> list[Block]:
    """Blocks of `size` tokens that each share at least half with the next and together hold all `length` tokens.

    A text no longer than `size` is one block.
    """
    if length <= size:
        return [Block(0, length)]
    steps = -(-2 * (length - size) // size)  # of at most half a block
    starts = [index * (length - size) // steps for index in range(steps + 1)]
    return [Block(start, start + size) for start in starts]


def excerpts(text: str, count: int, size: int) -> list[tuple[int, int]]:
    """Characters first .. last - 1 of `count` pieces of about `size`, evenly spread, that begin with a word."""
    places = []
    for index in range(count):
        start = index * (len(text) - size) // max(1, count - 1)
        word = text.find(" ", start, start + size // 2) + 1 if start else 0  # 0 where there is no blank
        places.append((word or start, start + size))
    return places


def mean_by_token(length: int, blocks: Sequence[Block], values: Sequence[Tensor]) -> Tensor:
    """The mean over the blocks that hold a token of its value in them: (length,), NaN where none does."""
    if len(blocks) == 1 and blocks[0] == (0, length):
        return values[0].double()
    total, count = torch.zeros(length, dtype=torch.double), torch.zeros(length, dtype=torch.double)
    for block, own in zip(blocks, values, strict=True):
        total[block.start : block.end] += own
        count[block.start : block.end] += 1
    return total / count
