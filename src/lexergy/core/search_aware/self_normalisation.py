"""Self-normalisation: scores whose local normaliser is 1 already, so that local and global models agree (5.3.1)."""

from typing import NamedTuple

import torch
from torch import Tensor


def log_z_penalty(scores: Tensor, written: Tensor) -> Tensor:  # (B, T, V), (B, T) bool -> (B,)
    """sum_t (log Z_{L,t})^2, log Z_{L,t} = log sum_v exp f(h_t, v), of raw scores (5.3.1, Goyal 2021).

    Added to cross-entropy with a weight lambda, it pre-trains a locally normalised model whose raw scores are
    log-probabilities, the start of globally normalised training (Devlin et al. 2014; Andreas & Klein 2015).
    """
    return torch.where(written, scores.logsumexp(-1).square(), 0).sum(-1)


class LogNormaliser(NamedTuple):
    """How far raw scores are from being normalised, over all steps (Table 5.1)."""

    mean: float
    variance: float


def log_normaliser(scores: Tensor, written: Tensor) -> LogNormaliser:  # (B, T, V), (B, T) bool
    """Mean and variance of log Z_{L,t} over the steps of all sentences."""
    log_z = scores.detach().double().logsumexp(-1)[written]
    return LogNormaliser(float(log_z.mean()), float(log_z.var(correction=0)))
