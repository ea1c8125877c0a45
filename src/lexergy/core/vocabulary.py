"""One pass over a large vocabulary, block by block: maxima, sums and moments of next-token distributions.

Logits (N, V) with tens of thousands of tokens do not fit a processor's cache, so each pass over them costs as
much as a layer of the model. Here every chunk is read once and everything is computed while it is at hand.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor

BLOCK = 128  # tokens; a power of two
NEVER = -1e9  # a logit of probability zero, which times zero is zero
_CHUNK = 2**20  # logits at hand at once


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
    parts = [_summarise_blocks(blocks) for blocks in _chunks(logits)]
    return VocabularySummary(*(torch.cat(columns, -1) for columns in zip(*parts, strict=True)))


def log_totals(logits: Tensor) -> Tensor:
    """log sum exp(l) of each row, float64 (N,): what of a summary scoring needs."""
    parts = []
    for blocks in _chunks(logits):
        maximum = _fold(torch.maximum, blocks)  # (N, blocks)
        parts.append(maximum.double() + _fold(torch.add, (blocks - maximum.unsqueeze(-1)).exp()).double().log())
    return torch.cat(parts, -1).logsumexp(-1)


def block_maxima(logits: Tensor) -> Tensor:
    """The largest logit of each block, (N, blocks): what of a summary top-k needs."""
    return torch.cat([_fold(torch.maximum, blocks) for blocks in _chunks(logits)], -1)


def ranks(logits: Tensor, tokens: Tensor) -> Tensor:
    """How many tokens are more likely than the given one, (N,)."""
    picked = logits.gather(-1, tokens.unsqueeze(-1)).unsqueeze(-1)  # (N, 1, 1)
    counts = [_fold(torch.add, (blocks > picked).to(torch.uint8)).sum(-1) for blocks in _chunks(logits)]
    return torch.stack(counts).sum(0)


def block_of(logits: Tensor, index: Tensor) -> Tensor:
    """The logits of one block per row (N, BLOCK), or of several (N, M, BLOCK); NEVER beyond the last token."""
    tokens = index.unsqueeze(-1) * BLOCK + torch.arange(BLOCK, device=logits.device)
    inside = tokens < logits.shape[-1]
    gathered = logits.gather(-1, tokens.clamp_max(logits.shape[-1] - 1).flatten(1)).view(tokens.shape)
    return gathered.masked_fill(~inside, NEVER)


def _chunks(logits: Tensor) -> Iterator[Tensor]:
    """The vocabulary as (N, blocks, BLOCK), a few blocks at a time; the last may be filled up."""
    num_rows, vocab_size = logits.shape
    width = max(1, _CHUNK // (num_rows * BLOCK)) * BLOCK
    whole = vocab_size - vocab_size % BLOCK
    for start in range(0, whole, width):
        yield logits[:, start : min(start + width, whole)].unflatten(-1, (-1, BLOCK))
    if whole < vocab_size:
        padded = torch.nn.functional.pad(logits[:, whole:], (0, BLOCK - vocab_size + whole), value=NEVER)
        yield padded.unsqueeze(1)


def _summarise_blocks(blocks: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    maximum = _fold(torch.maximum, blocks)  # (N, blocks)
    shifted = blocks - maximum.unsqueeze(-1)
    weights = shifted.exp()
    total = _fold(torch.add, weights)
    first = _fold(torch.add, weights.mul_(shifted))
    second = _fold(torch.add, weights.mul_(shifted))
    return maximum, total, first, second


def _fold(combine: Callable[[Tensor, Tensor], Tensor], values: Tensor) -> Tensor:
    """Reduce the last dimension, a power of two, by halving: element-wise, so fast in any memory order."""
    while values.shape[-1] > 1:
        half = values.shape[-1] // 2
        values = combine(values[..., :half], values[..., half:])
    return values.squeeze(-1)
