"""What a relaxed beam makes of its continuations (Alg. 3, lines 7 to 13, Goyal 2021), with its gradient written out.

The peaks p (B, k, K, C) are by far the largest tensor of a step. Autograd would keep and pass over several of that
size; the gradient below needs two, and makes no other.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor


class Mixed(NamedTuple):
    """The relaxed beam's next hypotheses, each a mixture of all continuations."""

    scores: Tensor  # (B, k), sum_{j, v} p_i[j, v] s~[j, v]
    shares: Tensor  # (B, k, K), b~_i[j] = sum_v p_i[j, v], the soft backpointers
    symbols: Tensor  # (B, k, C), a_i[v] = sum_j p_i[j, v]


def peak_logits(scores: Tensor, largest: Tensor, alpha: float) -> Tensor:  # (..., N), (..., k) -> (..., k, N)
    """-alpha (s - m_i)^2, whose softmax is the peak at the i-th largest score (Alg. 2)."""
    return (scores.unsqueeze(-2) - largest.unsqueeze(-1)).square() * -alpha


def mixed(continued: Tensor, largest: Tensor, alpha: float, width: int) -> Mixed:  # (B, K * C), (B, k)
    """The mixtures of continuations s~ of K = `width` hypotheses, by their peaks at the k largest."""
    return Mixed(*_Mixtures.apply(continued, largest, alpha, width))  # type: ignore[no-untyped-call]


class _Mixtures(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, continued: Tensor, largest: Tensor, alpha: float, width: int) -> tuple[Tensor, ...]:
        gaps = continued.unsqueeze(1) - largest.unsqueeze(2)  # (B, k, K * C)
        peaks = (gaps * gaps).mul_(-alpha).softmax(-1)
        scores = (peaks @ continued.unsqueeze(-1)).squeeze(-1)
        by_hypothesis = peaks.view(*peaks.shape[:2], width, -1)
        shares, symbols = by_hypothesis.sum(-1), by_hypothesis.sum(-2)
        ctx.save_for_backward(continued, gaps, peaks, scores, shares, symbols)
        ctx.alpha = alpha
        return scores, shares, symbols

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        """Through p = softmax(l), l = -alpha g^2, g = s~ - m: dl = p (dp - sum p dp), dg = -2 alpha g dl."""
        continued, gaps, peaks, scores, shares, symbols = ctx.saved_tensors
        d_scores, d_shares, d_symbols = gradients
        # sum p dp needs no pass over p: the sums of p are what forward returned.
        inner = d_scores * scores + (d_shares * shares).sum(-1) + (d_symbols * symbols).sum(-1)  # (B, k)
        spread = d_symbols.unsqueeze(2) + (d_shares - inner.unsqueeze(-1)).unsqueeze(-1)  # (B, k, K, C)
        spread = spread.view(peaks.shape).addcmul_(d_scores.unsqueeze(-1), continued.unsqueeze(1))
        spread.mul_(peaks).mul_(gaps)
        direct = (d_scores.unsqueeze(1) @ peaks).squeeze(1)
        return direct - 2 * ctx.alpha * spread.sum(1), 2 * ctx.alpha * spread.sum(-1), None, None
