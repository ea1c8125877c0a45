"""The law a token is drawn from: temperature, top-k, top-p; and the drawing itself by inverse CDF."""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from lexergy.errors import LexergyError

_BLOCK = 128  # the vocabulary is searched in two stages: block, then token within the block
_FIRST_CANDIDATES = 512  # a nucleus seldom has more tokens; the whole vocabulary is sorted when one does


@dataclass(frozen=True)
class Decoding:
    """How the next-token law of a language model is truncated: temperature, then top-k, then top-p."""

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float | None = None

    def __post_init__(self) -> None:
        if not self.temperature > 0:
            raise LexergyError(
                f"`temperature` is {self.temperature}; expected more than 0; 1 leaves the law as it is."
            )
        if self.top_k is not None and self.top_k < 1:
            raise LexergyError(
                f"`top_k` is {self.top_k}; expected at least 1; leave it out to sample untruncated."
            )
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise LexergyError(
                f"`top_p` is {self.top_p}; expected more than 0 and at most 1; leave it out to sample untruncated."
            )


class Draw(NamedTuple):
    tokens: Tensor  # (N,)
    log_prob: Tensor  # (N,) float64, under the truncated law


def draw(logits: Tensor, uniforms: Tensor, decoding: Decoding) -> Draw:
    """Draw one token per row of `logits` (N, V) by inverse CDF at `uniforms` (N,), with its log-probability."""
    if decoding.temperature != 1:
        logits = logits / decoding.temperature
    if decoding.top_k is None and decoding.top_p is None:
        return _draw_untruncated(logits, uniforms)
    candidates, tokens = _candidates(logits, decoding)  # (N, M) in descending order, -inf outside the law
    log_probs = candidates.double().log_softmax(-1)
    place = _first_above(log_probs.exp(), uniforms)
    return Draw(_pick(tokens, place), _pick(log_probs, place))


def truncated_log_probs(logits: Tensor, decoding: Decoding) -> Tensor:
    """The whole law that `draw` draws from, (N, V), -inf where it is zero: for enumeration and display."""
    logits = logits / decoding.temperature
    if decoding.top_k is None and decoding.top_p is None:
        return logits.log_softmax(-1)
    candidates, tokens = _candidates(logits, decoding)
    return torch.full_like(logits, -torch.inf).scatter(-1, tokens, candidates.log_softmax(-1))


def _draw_untruncated(logits: Tensor, uniforms: Tensor) -> Draw:
    """Inverse CDF in two stages, so that only block sums of the vocabulary are accumulated."""
    num_rows, vocab_size = logits.shape
    peak = logits.amax(-1, keepdim=True)
    weights = (logits - peak).exp_()
    if vocab_size % _BLOCK:
        weights = torch.nn.functional.pad(weights, (0, -vocab_size % _BLOCK))
    blocks = weights.unflatten(-1, (-1, _BLOCK))  # (N, V / block, block)
    sums = blocks.sum(-1, dtype=torch.float64)
    block, rest = _search(sums, uniforms * sums.sum(-1))
    inside = blocks[torch.arange(num_rows, device=logits.device), block].double()  # (N, block)
    place, _ = _search(inside, rest)
    tokens = block * _BLOCK + place
    log_prob = _pick(logits, tokens).double() - peak.squeeze(-1) - sums.sum(-1).log()
    return Draw(tokens, log_prob)


def _search(weights: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """First index whose cumulated weight exceeds `target`, never one of weight zero; and what is left over."""
    cumulated = weights.cumsum(-1)
    index = torch.searchsorted(cumulated, target.unsqueeze(-1), right=True).squeeze(-1)
    # Rounding may put the target at or past the end: then take the last token that has any weight.
    positions = torch.arange(weights.shape[-1], device=weights.device)
    index = torch.minimum(index, torch.where(weights > 0, positions, 0).amax(-1))
    return index, target - (_pick(cumulated, index) - _pick(weights, index))


def _first_above(probs: Tensor, uniforms: Tensor) -> Tensor:
    return _search(probs, uniforms * probs.sum(-1))[0]


def _candidates(logits: Tensor, decoding: Decoding) -> tuple[Tensor, Tensor]:
    """Logits of the tokens in the truncated law in descending order, and their token ids, both (N, M)."""
    vocab_size = logits.shape[-1]
    if decoding.top_k is not None:
        values, tokens = _top(logits, min(decoding.top_k, vocab_size))
        log_total = values.logsumexp(-1, keepdim=True)
    else:
        values, tokens = _top(logits, min(_FIRST_CANDIDATES, vocab_size))
        log_total = logits.logsumexp(-1, keepdim=True)
    if decoding.top_p is None:
        return values, tokens
    probs = (values - log_total).double().exp()
    if decoding.top_k is None and bool((probs.sum(-1) < decoding.top_p).any()):
        values, tokens = logits.sort(-1, descending=True)
        probs = (values - log_total).double().exp()
    before = probs.cumsum(-1) - probs  # a token is kept while the mass before it has not reached top_p
    return values.masked_fill(before >= decoding.top_p, -torch.inf), tokens


def _top(logits: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """`torch.topk`, in two stages for a large vocabulary: the top tokens lie in the blocks of highest maximum."""
    num_rows, vocab_size = logits.shape
    num_blocks = vocab_size // _BLOCK
    if vocab_size % _BLOCK or count * 4 > num_blocks:
        return tuple(logits.topk(count, -1))
    blocks = logits.unflatten(-1, (num_blocks, _BLOCK))
    chosen = _maximum(blocks).topk(count, -1).indices  # (N, count)
    rows = torch.arange(num_rows, device=logits.device).unsqueeze(-1)
    values, places = blocks[rows, chosen].flatten(1).topk(count, -1)
    return values, chosen.gather(-1, places // _BLOCK) * _BLOCK + places % _BLOCK


def _maximum(values: Tensor) -> Tensor:
    """`amax` over a last dimension that is a power of two, by halving: element-wise, so fast in any memory order."""
    while values.shape[-1] > 1:
        half = values.shape[-1] // 2
        values = torch.maximum(values[..., :half], values[..., half:])
    return values.squeeze(-1)


def _pick(table: Tensor, index: Tensor) -> Tensor:
    return table.gather(-1, index.unsqueeze(-1)).squeeze(-1)
