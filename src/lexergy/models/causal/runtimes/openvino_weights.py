"""Weights as a compiled graph keeps them: float32 or, to the same numbers, the whole ones of the file they came from.

A GGUF file has small whole numbers with a scale, and often an offset, for each block of 32 weights. Read into float32
they are four to eight times as large, and with few rows a step is as long as it takes to read them. Since the numbers
can be told from the weights, nothing needs to know of the file.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from openvino import opset15 as ops
from torch import Tensor

BLOCK = 32  # weights along the inputs
_LEVELS = 15  # between the least and the greatest of a block (Q4_1)
_HALF_RANGE = 127  # between 0 and the greatest magnitude (Q8_0)
_ROUNDING = 1e-6  # of a block's greatest magnitude


class Numbered(NamedTuple):
    """w = scale (n - zero), in blocks."""

    numbers: Tensor  # (out, blocks, BLOCK), of 8 bits
    zero: Tensor  # (out, blocks, 1)
    scale: Tensor  # (out, blocks, 1)

    def weights(self) -> Tensor:
        """In float32, as the graph computes them."""
        return ((self.numbers.float() - self.zero) * self.scale).flatten(1)


def numbered(weight: Tensor) -> Numbered | None:  # (out, in)
    """The whole numbers behind a matrix; None where there are none."""
    if weight.shape[1] % BLOCK:
        return None
    blocks = weight.detach().unflatten(1, (-1, BLOCK))
    for read in (_symmetric, _between):
        if _is_equal(read(blocks[:1]), blocks[:1]) and _is_equal(whole := read(blocks), blocks):
            return whole
    return None


def _symmetric(blocks: Tensor) -> Numbered:
    scale = _positive(blocks.abs().amax(-1, keepdim=True) / _HALF_RANGE)
    numbers = (blocks / scale).round_().to(torch.int8)
    return Numbered(numbers, torch.zeros_like(scale), scale)


def _between(blocks: Tensor) -> Numbered:
    least, greatest = blocks.aminmax(dim=-1, keepdim=True)
    scale = _positive((greatest - least) / _LEVELS)
    numbers = ((blocks - least) / scale).round_().to(torch.uint8)
    return Numbered(numbers, -least / scale, scale)


def _positive(scale: Tensor) -> Tensor:
    return torch.where(scale > 0, scale, 1)


def _is_equal(numbers: Numbered, blocks: Tensor) -> bool:
    error = (numbers.weights().view_as(blocks) - blocks).abs_()
    return bool((error <= _ROUNDING * blocks.abs().amax(-1, keepdim=True)).all())


def constant_of(weight: Tensor, as_numbers: bool) -> Any:
    """A matrix as a part of a graph; as whole numbers, if it has them, where asked for."""
    known = numbered(weight) if as_numbers else None
    if known is None:
        return ops.constant(weight.detach().contiguous().numpy(), shared_memory=True)
    values = ops.convert(ops.constant(known.numbers.numpy()), "f32")
    if known.zero.any():
        values = ops.subtract(values, ops.constant(known.zero.numpy()))
    scaled = ops.multiply(values, ops.constant(known.scale.numpy()))
    return ops.reshape(scaled, whole(list(weight.shape)), False)


def whole(values: int | Sequence[int]) -> Any:
    return ops.constant(np.array(values, np.int32))
