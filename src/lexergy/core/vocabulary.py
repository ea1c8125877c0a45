"""One pass over a large vocabulary, block by block: maxima, sums and moments of next-token distributions.

Logits (N, V) with tens of thousands of tokens do not fit a processor's cache, so each pass over them costs as
much as a layer of the model. Here every chunk is read once and everything is computed while it is at hand.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

BLOCK = 128  # tokens; a power of two
NEVER = -1e9  # a logit of probability zero, which times zero is zero
_LOG2_E = math.log2(math.e)
_CHUNK = 2**18  # logits at hand at once: with what is made of them, what the second cache of a core holds


class VocabularySummary(NamedTuple):
    """Of each block b of tokens: m = max l, and sums of exp(l - m) (l - m)^i for i = 0, 1, 2, each (N, blocks)."""

    maximum: Tensor
    total: Tensor
    first: Tensor
    second: Tensor

    def log_mass(self) -> Tensor:
        """log sum exp(l) of each block, float64 (N, blocks)."""
        return self.maximum.double() + self.total.double().log()

    def moments(self) -> tuple[Tensor, Tensor, Tensor]:
        """log Z, entropy and variance of log p of each row, float64 (N,)."""
        peak = self.maximum.double().amax(-1, keepdim=True)
        shift = self.maximum.double() - peak  # of a block's maximum from the row's, (N, blocks)
        total, first, second = self.total.double(), self.first.double(), self.second.double()
        weight = shift.exp()
        mass = (weight * total).sum(-1)
        mean = (weight * (first + shift * total)).sum(-1) / mass  # of l - peak
        mean_square = (weight * (second + 2 * shift * first + shift**2 * total)).sum(-1) / mass
        return peak.squeeze(-1) + mass.log(), mass.log() - mean, (mean_square - mean**2).clamp_min(0)


def summarise(logits: Tensor) -> VocabularySummary:
    """Read the logits (N, V) once."""
    room: list[Tensor] = []
    return VocabularySummary(*_by_chunks(lambda blocks: _summarise_blocks(blocks, room), logits))


def log_totals(logits: Tensor) -> Tensor:
    """log sum exp(l) of each row, float64 (N,): what of a summary scoring needs."""
    (log_mass,) = _by_chunks(_log_mass, logits)
    return log_mass.logsumexp(-1)


def block_maxima(logits: Tensor) -> Tensor:
    """The largest logit of each block, (N, blocks): what of a summary top-k needs."""
    return _by_chunks(lambda blocks: (_largest(blocks),), logits)[0]


def ranks(logits: Tensor, tokens: Tensor, maxima: Tensor) -> Tensor:
    """How many tokens are more likely than the given one, (N,): all are in blocks whose largest logit is larger."""
    picked = logits.gather(-1, tokens.unsqueeze(-1))  # (N, 1)
    row, block = (maxima > picked).nonzero(as_tuple=True)  # (M,)
    larger = _blocks_at(logits, row, block) > picked[row]  # (M, BLOCK)
    return torch.zeros_like(tokens).index_add_(0, row, larger.sum(-1))


def block_of(logits: Tensor, index: Tensor) -> Tensor:
    """The logits of one block per row (N, BLOCK), or of several (N, M, BLOCK); NEVER beyond the last token."""
    rows = torch.arange(len(logits), device=logits.device).view(-1, *[1] * (index.dim() - 1))
    return _blocks_at(logits, rows, index)


def _blocks_at(logits: Tensor, row: Tensor, block: Tensor) -> Tensor:  # (N, V), (...), (...) -> (..., BLOCK)
    num_rows, vocab_size = logits.shape
    if logits.is_contiguous() and vocab_size % BLOCK == 0:
        return logits.view(num_rows, -1, BLOCK)[row, block]
    tokens = block.unsqueeze(-1) * BLOCK + torch.arange(BLOCK, device=logits.device)
    found = logits[row.unsqueeze(-1), tokens.clamp_max(vocab_size - 1)]
    return found.masked_fill(tokens >= vocab_size, NEVER)


def _by_chunks(compute: Callable[[Tensor], tuple[Tensor, ...]], logits: Tensor) -> list[Tensor]:
    """What `compute` makes of (n, blocks, BLOCK), each (n, blocks), for all rows and blocks: (N, blocks).

    As many as stay at hand while they are read: a few rows where a row is one piece of memory, else a few blocks.
    """
    if logits.stride(-1) != 1:
        return _joined([compute(blocks) for blocks in _parts(logits)], -1)
    rows = logits.split(max(1, _CHUNK // logits.shape[-1]))
    return _joined([_joined([compute(blocks) for blocks in _parts(few)], -1) for few in rows], 0)


def _joined(parts: Sequence[Sequence[Tensor]], dim: int) -> list[Tensor]:
    return [columns[0] if len(parts) == 1 else torch.cat(columns, dim) for columns in zip(*parts, strict=True)]


def _parts(logits: Tensor) -> Iterator[Tensor]:
    """The vocabulary as (N, blocks, BLOCK), a few blocks at a time; the last may be filled up."""
    num_rows, vocab_size = logits.shape
    width = max(1, _CHUNK // (num_rows * BLOCK)) * BLOCK
    whole = vocab_size - vocab_size % BLOCK
    for start in range(0, whole, width):
        yield logits[:, start : min(start + width, whole)].unflatten(-1, (-1, BLOCK))
    if whole < vocab_size:
        padded = torch.nn.functional.pad(logits[:, whole:], (0, BLOCK - vocab_size + whole), value=NEVER)
        yield padded.unsqueeze(1)


def _summarise_blocks(blocks: Tensor, room: list[Tensor]) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """`room` is what the last chunk was computed in: new memory for each would cost more than the exponentials."""
    maximum = _largest(blocks)  # (n, blocks)
    if not room or room[0].shape != blocks.shape:
        room[:] = torch.empty_like(blocks), torch.empty_like(blocks)
    shifted = _in_twos(torch.sub(blocks, maximum.unsqueeze(-1), out=room[0]))
    weights = torch.exp2(shifted, out=room[1])
    total = _sum(weights)
    first = _sum(weights.mul_(shifted)) / _LOG2_E
    second = _sum(weights.mul_(shifted)) / _LOG2_E**2
    return maximum, total, first, second


def _log_mass(blocks: Tensor) -> tuple[Tensor]:
    maximum = _largest(blocks)
    return (maximum.double() + _sum(_in_twos(blocks - maximum.unsqueeze(-1)).exp2_()).double().log(),)


def _in_twos(exponents: Tensor) -> Tensor:
    """Of e into those of 2, in place: on an AMD EPYC torch's powers of two take a third of the time."""
    return exponents.mul_(_LOG2_E)


def _largest(blocks: Tensor) -> Tensor:
    return blocks.amax(-1) if blocks.stride(-1) == 1 else _fold(torch.maximum, blocks)


def _sum(blocks: Tensor) -> Tensor:
    return blocks.sum(-1) if blocks.stride(-1) == 1 else _fold(torch.add, blocks)


def _fold(combine: Callable[[Tensor, Tensor], Tensor], values: Tensor) -> Tensor:
    """Reduce the last dimension, a power of two, by halving: element-wise, so fast in any memory order."""
    while values.shape[-1] > 1:
        half = values.shape[-1] // 2
        values = combine(values[..., :half], values[..., half:])
    return values.squeeze(-1)
