"""Machine or human without training: what an LM's predictions alone say of a text.

Of each token x_t the scoring LM q and the sampling LM p (by default the same) give

    log q(x_t),   mu_t = E_{v ~ p_t} log q_t(v),   sigma_t^2 = Var_{v ~ p_t} log q_t(v),   r_t,

with r_t the number of tokens that q holds for more likely. Every score is a mean over tokens of terms e_t, which may
depend on the whole text, and is the higher the more the text is a machine's.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

TAIL = 100  # ranks
NATS_SQUARED = 10.0  # of varentropy that weigh as much as one nat of the ranks' tail
_ROWS = 32  # distributions in float64 at once
_LEAST = 1e-6  # of a sum of variances, where an LM is certain of everything


class TokenStatistics(NamedTuple):
    """Of the L tokens of a text but the first, which nothing predicts: (L - 1,) each, float64."""

    log_prob: Tensor  # log q(x_t)
    expected: Tensor  # mu_t; where p = q, minus the entropy
    variance: Tensor  # sigma_t^2
    log_rank: Tensor  # log(1 + r_t)


def likelihood(tokens: TokenStatistics) -> Tensor:
    """The mean of log q(x_t) (Gehrmann et al. 2019; Solaiman et al. 2019)."""
    return tokens.log_prob


def log_rank(tokens: TokenStatistics) -> Tensor:
    """Minus the mean of log(1 + r_t) (Gehrmann et al. 2019; Mitchell et al. 2023)."""
    return -tokens.log_rank


def curvature(tokens: TokenStatistics) -> Tensor:
    """sum_t (log q(x_t) - mu_t) / sqrt(sum_t sigma_t^2) (Eq. 5 and 6, Fast-DetectGPT, Bao et al. 2024).

    How far the text is likelier than what p would have written in its place, token by token, in standard deviations.
    """
    spread = tokens.variance.sum().clamp_min(_LEAST).sqrt()
    return len(tokens.log_prob) * (tokens.log_prob - tokens.expected) / spread


def ratio(tokens: TokenStatistics) -> Tensor:
    """Minus sum_t log q(x_t) / sum_t mu_t, log-perplexity over cross-entropy (Eq. 4, Binoculars, Hans et al. 2024).

    q is their performer and p their observer; where both are one LM, the cross-entropy is the entropy.
    """
    return tokens.log_prob / -tokens.expected.mean().clamp_max(-_LEAST)


def rank_tail(tokens: TokenStatistics) -> Tensor:
    """Minus the mean of max(0, log((1 + r_t) / 100)): how far beyond an LM's 100 likeliest tokens a text goes (ours).

    Assistants write text of high likelihood and no curvature, samples at temperature 1 the reverse; both seldom write a
    token that is far down in the ranks of an LM, and people do.
    """
    return -(tokens.log_rank - math.log(TAIL)).clamp_min(0)


def tail_varentropy(tokens: TokenStatistics) -> Tensor:
    """`rank_tail` minus the mean of sigma_t^2 / 10 (ours): narrow predictions, and nothing far outside of them.

    Of one LM sigma_t^2 is its varentropy, the variance of what it is to learn from the next token (Kontoyiannis and
    Verdu 2014). Where it is large, few likely continuations stand beside many unlikely ones. Assistants come there less
    often than people do.
    """
    return rank_tail(tokens) - tokens.variance / NATS_SQUARED


SCORERS: dict[str, Callable[[TokenStatistics], Tensor]] = {
    "likelihood": likelihood,
    "log-rank": log_rank,
    "curvature": curvature,
    "ratio": ratio,
    "rank-tail": rank_tail,
    "tail-varentropy": tail_varentropy,
}
"""Terms (L - 1,) of each score, whose mean it is."""
BITS_RATIO = "bits-ratio"


def bits_ratio(
    tokens: TokenStatistics, characters: int, second: TokenStatistics, second_characters: int
) -> Tensor:  # (L - 1,)
    """Minus the bits that one LM needs for a character over those that another needs, where their tokens differ (ours).

    [sum_t log q(x_t) / characters] / [sum_s log q'(x_s) / characters'], each over the characters that its own tokens
    after the first stand for. Unlike `ratio`, nothing is expected under either LM: it is a ratio of likelihoods.
    """
    bits = second.log_prob.sum().clamp_max(-_LEAST) / max(1, second_characters)
    return -len(tokens.log_prob) * tokens.log_prob / max(1, characters) / bits


def cross_moments(scoring: Tensor, sampling: Tensor) -> tuple[Tensor, Tensor]:  # (N, V), (N, V) -> (N,), (N,)
    """mu and sigma^2 of log q under p from the logits of q (scoring) and of p (sampling), float64."""
    parts = [
        _moments(own.double().log_softmax(-1), given.double().softmax(-1))
        for own, given in zip(scoring.split(_ROWS), sampling.split(_ROWS), strict=True)
    ]
    means, variances = zip(*parts, strict=True)
    return torch.cat(means), torch.cat(variances)


def _moments(log_q: Tensor, p: Tensor) -> tuple[Tensor, Tensor]:  # (n, V), (n, V) -> (n,), (n,)
    log_q = torch.where(p > 0, log_q, 0.0)  # 0 log 0 = 0
    mean = (p * log_q).sum(-1)
    return mean, (p * (log_q - mean.unsqueeze(-1)).square()).sum(-1)
