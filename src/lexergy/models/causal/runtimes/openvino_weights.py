"""Weights as a compiled graph keeps them: float32 or, to the same numbers, the whole ones of the file they came from.

A GGUF file has small whole numbers with a scale, and often an offset, for each block of 32 weights. Read into float32
they are four to eight times as large, and with few rows a step is as long as it takes to read them. Since the numbers
can be told from the weights, nothing needs to know of the file.

Products of whole numbers want a zero that is whole too, which an offset is not. In eight bits the numbers of a file can
be spread so that it nearly is.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from openvino import opset15 as ops
from torch import Tensor

BLOCK = 32  # weights along the inputs
_LEVELS = 15  # between the least and the greatest of a block (Q4_1)
_HALF_RANGE = 127  # between 0 and the greatest magnitude (Q8_0)
_ROUNDING = 1e-6  # of a block's greatest magnitude
_BYTE = 255
_ROWS = 2**12  # of a matrix, read at once: what is computed on the way is several times as large
Constant = Callable[[Tensor], Any]  # a matrix -> a part of a graph


class Numbered(NamedTuple):
    """w = scale (n - zero), in blocks."""

    numbers: Tensor  # (out, blocks, BLOCK), of 8 bits
    zero: Tensor  # (out, blocks, 1), of 8 bits too where it is whole
    scale: Tensor  # (out, blocks, 1)

    def weights(self) -> Tensor:
        """In float32, as the graph computes them."""
        return ((self.numbers.float() - self.zero.float()) * self.scale).flatten(1)


def numbered(weight: Tensor) -> Numbered | None:  # (out, in)
    """The whole numbers behind a matrix; None where there are none."""
    if weight.shape[1] % BLOCK:
        return None
    blocks = weight.detach().unflatten(1, (-1, BLOCK))
    for read in (_symmetric, _between):
        if (found := _read(read, blocks)) is not None:
            return found
    return None


def _read(read: Callable[[Tensor], Numbered], blocks: Tensor) -> Numbered | None:
    """What `read` makes of the blocks, if it is equal to them."""
    parts = []
    for rows in (blocks[:1], *blocks.split(_ROWS)):  # a wrong guess is seen at the first row
        parts.append(read(rows))
        if not _is_equal(parts[-1], rows):
            return None
    return _joined(parts[1:])


def _joined(parts: Sequence[Numbered]) -> Numbered:
    return Numbered(*map(torch.cat, zip(*parts, strict=True)))


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


def eight_bits(weight: Tensor) -> Numbered | None:  # (out, in)
    """The nearest to a matrix of whole numbers, and a whole zero, from 0 to 255; None where there are no blocks.

    Of a file that has a whole zero (Q8_0) they are its own. Of one with offsets (Q4_1) the levels are put as many
    numbers apart as brings the zero nearest to a whole one: SmolLM2's weights are .2 % off, in the root mean square.
    """
    known = numbered(weight)
    if known is not None and not known.zero.any():
        zero = torch.full_like(known.scale, _HALF_RANGE + 1, dtype=torch.uint8)
        return Numbered(known.numbers.view(torch.uint8) + zero, zero, known.scale)  # modulo 256
    if weight.shape[1] % BLOCK:
        return None
    parts = [_rounded(rows) for rows in weight.detach().unflatten(1, (-1, BLOCK)).split(_ROWS)]
    if known is not None:
        of_file = zip(*(part.split(_ROWS) for part in known), strict=True)
        parts = [_spread(Numbered(*own), nearest) for own, nearest in zip(of_file, parts, strict=True)]
    return _joined(parts)


def _rounded(blocks: Tensor) -> Numbered:
    least, greatest = blocks.amin(-1, keepdim=True).clamp(max=0), blocks.amax(-1, keepdim=True).clamp(min=0)
    scale = _positive((greatest - least) / _BYTE)
    zero = (-least / scale).round_()
    return Numbered((blocks / scale + zero).round_().to(torch.uint8), zero.to(torch.uint8), scale)


def _spread(known: Numbered, otherwise: Numbered) -> Numbered:
    """Levels k numbers apart, k so that k times the zero is nearest to whole; `otherwise` where that is nearer."""
    apart = torch.arange(1, _BYTE // _LEVELS + 1)
    zeros = known.zero * apart  # (out, blocks, k)
    error = (zeros - zeros.round()).abs() / apart
    error[(zeros.round() < 0) | (zeros.round() > _BYTE)] = torch.inf
    best = error.argmin(-1, keepdim=True)  # (out, blocks, 1)
    fits = error.gather(-1, best) <= otherwise.scale / known.scale / 2
    zero, times = zeros.gather(-1, best).round().clamp(0, _BYTE), apart[best]
    spread = Numbered((known.numbers * times).to(torch.uint8), zero.to(torch.uint8), known.scale / times)
    return Numbered(*(torch.where(fits, own, other) for own, other in zip(spread, otherwise, strict=True)))


def plain(weight: Tensor) -> Any:
    """A matrix as it is."""
    return ops.constant(weight.detach().contiguous().numpy(), shared_memory=True)


def as_numbers(weight: Tensor) -> Any:
    """A matrix as whole numbers, if it has them."""
    return _constant(weight, numbered(weight))


def in_eight_bits(weight: Tensor) -> Any:
    """A matrix of which the graph makes products of whole numbers."""
    return _constant(weight, eight_bits(weight))


def _constant(weight: Tensor, known: Numbered | None) -> Any:
    if known is None:
        return plain(weight)
    values = ops.convert(ops.constant(known.numbers.numpy()), "f32")
    if known.zero.any():
        zero = ops.constant(known.zero.numpy())
        values = ops.subtract(values, zero if known.zero.is_floating_point() else ops.convert(zero, "f32"))
    scaled = ops.multiply(values, ops.constant(known.scale.numpy()))
    return ops.reshape(scaled, whole(list(weight.shape)), False)


def whole(values: int | Sequence[int]) -> Any:
    return ops.constant(np.array(values, np.int32))
