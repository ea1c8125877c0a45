"""What particles of sequential Monte Carlo are drawn from: the LM's tokens, tilted towards those of low energy.

P_LM(x_t | x_<t) exp(-s_t g(x_t)) is normalised over the vocabulary before any token is fed to the model, so that a
guess g at what a token adds to the energy costs one more pass over the logits. Weights then have the factor P_LM / q
at each token, and the target is what it was (Zhao et al. 2024, Sec. 3).
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from lexergy.core.vocabulary import VocabularySummary

LEAST_LOG_PROB = -15.0  # as which less likely tokens count: nobody has seen enough of them
NUM_LIKELIHOOD_TERMS = 3
_ROWS_AT_HAND = 4
_PENALTIES = tuple(10.0**power for power in range(-3, 5))


class TokenTilt(NamedTuple):
    """g(w) = u_w + a_1 l + a_2 l^2 + a_3 l H, with l = log P_LM(w | x_<t) and H the entropy of that distribution."""

    of_token: Tensor  # (V,) u
    of_likelihood: Tensor  # (3,) a
    strength: Tensor  # (T,) s

    def tilted(self, step: int, logits: Tensor, summary: VocabularySummary) -> Tensor:  # (R, V) -> (R, V)
        """The logits that the token after `step` others is drawn by."""
        log_total, entropy, _ = summary.moments()
        linear, square, mixed = self.of_likelihood.tolist()
        slope = (linear + mixed * entropy).to(logits.dtype).unsqueeze(-1)  # (R, 1)
        log_total, of_token = log_total.to(logits.dtype).unsqueeze(-1), self.of_token.to(logits)
        strength, tilted = -float(self.strength[step]), torch.empty_like(logits)
        for start in range(0, len(logits), _ROWS_AT_HAND):  # no more than stays in a processor's cache
            rows = slice(start, start + _ROWS_AT_HAND)
            guess = (logits[rows] - log_total[rows]).clamp_(min=LEAST_LOG_PROB)
            guess.mul_(guess * square + slope[rows]).add_(of_token)
            torch.add(logits[rows], guess, alpha=strength, out=tilted[rows])
        return tilted


def likelihood_terms(log_prob: Tensor, entropy: Tensor) -> Tensor:  # (...), (...) -> (..., 3)
    """l, l^2 and l H, of which the guess is a linear function."""
    log_prob = log_prob.clamp(min=LEAST_LOG_PROB)
    return torch.stack((log_prob, log_prob**2, log_prob * entropy), -1)


class TiltFit(NamedTuple):
    weights: Tensor  # (F,)
    explained: float  # share of the variance of what tokens add to the energy, on groups held out


def fit_tilt(features: Tensor, added: Tensor, groups: Sequence[int]) -> TiltFit:  # (N, F), (N,), (N,)
    """Ridge regression of what tokens add to an energy on features of theirs, each less its mean under P_LM(. | x_<t).

    Such features have mean zero given x_<t, so that what the context alone adds is no part of the answer; its mean over
    each group is taken away first, which leaves less noise. The penalty is that which explains most of every fourth
    group, fitted on the others.
    """
    features, added, number = features.double(), added.double(), torch.as_tensor(groups)
    _, number = number.unique(return_inverse=True)
    mean = torch.zeros(int(number.max()) + 1, dtype=torch.double).index_add_(0, number, added)
    added = added - (mean / number.bincount())[number]
    scale = features.std(0).clamp(min=1e-9)
    features = features / scale
    held_out = number % 4 == 3
    if not bool(held_out.any()):
        held_out = torch.arange(len(added)) % 4 == 3
    share = {}
    for penalty in _PENALTIES:
        weights = _ridge(features[~held_out], added[~held_out], penalty)
        left = added[held_out] - features[held_out] @ weights
        share[penalty] = 1 - float((left**2).mean() / (added[held_out] ** 2).mean().clamp(min=1e-12))
    best = max(share, key=lambda penalty: share[penalty])
    return TiltFit(_ridge(features, added, best) / scale, share[best])


def _ridge(features: Tensor, target: Tensor, penalty: float) -> Tensor:  # (N, F), (N,) -> (F,)
    gram = features.T @ features / len(features)
    weights: Tensor = torch.linalg.solve(gram + penalty * torch.eye(len(gram)), features.T @ target / len(target))
    return weights
