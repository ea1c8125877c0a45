"""The distribution a token is drawn from: temperature, top-k, top-p; and the drawing itself, down a binary tree.

Rounding moves logits by 1e-4 when the size of a batch, the number of threads or the runtime changes. An inverse CDF
over 50,000 tokens then draws another token three times in a thousand, since every token before the drawn one moves its
place. Down a tree, with a fresh number at each fork, only the shares of a few ways matter: of 60,000 draws of SmolLM2
none changed.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from lexergy.core.vocabulary import BLOCK, VocabularySummary, block_maxima, block_of, summarise
from lexergy.errors import LexergyError

FAN = 8  # ways at each fork
FORKS = 7  # on the way down, at most, in a vocabulary of half a million
_FIRST_CANDIDATES = 512  # a nucleus seldom has more tokens; the whole vocabulary is sorted when one does


@dataclass(frozen=True)
class Decoding:
    """How the next-token distribution of a language model is truncated: temperature, then top-k, then top-p."""

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None

    def __post_init__(self) -> None:
        if not self.temperature > 0:
            raise LexergyError(
                f"`temperature` is {self.temperature}; expected more than 0; 1 leaves the distribution as it is."
            )
        if self.top_k is not None and self.top_k < 1:
            raise LexergyError(f"`top_k` is {self.top_k}; expected at least 1; leave it out to sample untruncated.")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise LexergyError(
                f"`top_p` is {self.top_p}; expected more than 0 and at most 1; leave it out to sample untruncated."
            )


class Draw(NamedTuple):
    tokens: Tensor  # (N,)
    log_prob: Tensor  # (N,) float64, under the truncated distribution


def draw(logits: Tensor, numbers: Tensor, decoding: Decoding, summary: VocabularySummary | None = None) -> Draw:
    """Draw one token per row of `logits` (N, V), decided by uniform `numbers` (N, F), with its log-probability.

    Each fork on the way takes the next number; the last is stretched over the forks that are left, so that one number
    (F = 1) is the inverse CDF. `summary` is that of the logits, where it is known already.
    """
    if decoding.temperature != 1:
        logits, summary = logits / decoding.temperature, None
    if decoding.top_k is None and decoding.top_p is None:
        return _draw_untruncated(logits, numbers, summary or summarise(logits))
    candidates, tokens = _candidates(logits, decoding, summary)  # (N, M) in descending order, -inf where cut off
    log_probs = candidates.double().log_softmax(-1)
    place, _ = _descend(log_probs.exp(), numbers)
    return Draw(pick(tokens, place), pick(log_probs, place))


def truncated_log_probs(logits: Tensor, decoding: Decoding) -> Tensor:
    """The whole distribution that `draw` draws from, (N, V), -inf where it is zero: for enumeration and display."""
    logits = logits / decoding.temperature
    if decoding.top_k is None and decoding.top_p is None:
        return logits.log_softmax(-1)
    candidates, tokens = _candidates(logits, decoding, None)
    return torch.full_like(logits, -torch.inf).scatter(-1, tokens, candidates.log_softmax(-1))


def _draw_untruncated(logits: Tensor, numbers: Tensor, summary: VocabularySummary) -> Draw:
    """One tree in two parts: down to a block of tokens by its mass, then to a token within the block."""
    log_mass = summary.log_mass()  # (N, blocks)
    log_total = log_mass.logsumexp(-1, keepdim=True)
    block, numbers = _descend((log_mass - log_total).exp(), numbers)
    probs = (block_of(logits, block).double() - log_total).exp()  # (N, BLOCK)
    place, _ = _descend(probs, numbers)
    tokens = block * BLOCK + place
    return Draw(tokens, pick(logits, tokens).double() - log_total.squeeze(-1))


def _descend(weights: Tensor, numbers: Tensor) -> tuple[Tensor, Tensor]:  # (N, M), (N, F) -> (N,), (N, F')
    """Each row's leaf, never one of weight zero: at every fork a way by its share; and the numbers that are left."""
    num_leaves = FAN
    while num_leaves < weights.shape[-1]:
        num_leaves *= FAN
    levels = [torch.nn.functional.pad(weights, (0, num_leaves - weights.shape[-1])).unflatten(-1, (-1, FAN))]
    while levels[-1].shape[1] > 1:
        levels.append(levels[-1].sum(-1).unflatten(-1, (-1, FAN)))
    rows = torch.arange(len(weights), device=weights.device)
    index, nothing = torch.zeros_like(rows), weights.new_zeros(())
    for level in reversed(levels):
        ways = level[rows, index]  # (N, FAN)
        reached = ways.cumsum(-1)
        total = reached[:, -1]
        target = torch.minimum(numbers[:, 0] * total, torch.nextafter(total, nothing))
        way = (reached <= target.unsqueeze(-1)).sum(-1)
        index = index * FAN + way
        if numbers.shape[-1] > 1:
            numbers = numbers[:, 1:]
        else:
            taken = pick(ways, way)
            numbers = ((target - pick(reached, way) + taken) / taken).unsqueeze(-1)
    return index, numbers


def _candidates(logits: Tensor, decoding: Decoding, summary: VocabularySummary | None) -> tuple[Tensor, Tensor]:
    """Logits of the tokens that are not cut off, in descending order, and their token ids, both (N, M)."""
    vocab_size = logits.shape[-1]
    if decoding.top_k is not None:
        maxima = block_maxima(logits) if summary is None else summary.maximum
        values, tokens = _top(logits, min(decoding.top_k, vocab_size), maxima)
        if decoding.top_p is None:
            return values, tokens
        log_total = values.double().logsumexp(-1, keepdim=True)
    else:
        summary = summary or summarise(logits)
        values, tokens = _top(logits, min(_FIRST_CANDIDATES, vocab_size), summary.maximum)
        log_total = summary.log_mass().logsumexp(-1, keepdim=True)
    if decoding.top_p is None:
        return values, tokens
    probs = (values - log_total).exp()
    if decoding.top_k is None and bool((probs.sum(-1) < decoding.top_p).any()):
        values, tokens = logits.sort(-1, descending=True)
        probs = (values - log_total).exp()
    before = probs.cumsum(-1) - probs  # a token is kept while the mass before it has not reached top_p
    return values.masked_fill(before >= decoding.top_p, -torch.inf), tokens


def _top(logits: Tensor, count: int, maxima: Tensor) -> tuple[Tensor, Tensor]:
    """`torch.topk`; in a large vocabulary the top tokens lie in the blocks of highest maximum."""
    if count * 4 > maxima.shape[-1]:
        values, tokens = logits.topk(count, -1)
        return values, tokens
    chosen = maxima.topk(count, -1).indices  # (N, count)
    values, places = block_of(logits, chosen).flatten(1).topk(count, -1)
    return values, chosen.gather(-1, places // BLOCK) * BLOCK + places % BLOCK


def pick(table: Tensor, index: Tensor) -> Tensor:  # (..., V), (...) -> (...)
    """The entry of each row at its index."""
    return table.gather(-1, index.unsqueeze(-1)).squeeze(-1)
