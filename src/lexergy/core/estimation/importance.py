"""Importance weights: how far they can be trusted, and resampling by them."""

import math

import torch
from torch import Tensor

from lexergy.errors import LexergyError

# Estimates from weights of a smaller effective sample size are not trusted: with 64 to 1,024 log-normal weights even
# Theorem 2's pessimistic end turns optimistic between 5 and 11 (tests/core/estimation/test_partition.py).
LEAST_ESS = 10
FEWEST_FOR_PARETO_K = 25


def effective_sample_size(log_weights: Tensor) -> Tensor:  # (..., n) -> (...)
    """How many equally weighted samples the weights are worth: (sum_i w_i)^2 / sum_i w_i^2 (Kong 1992).

    From 1 (one weight dominates) to n (all equal); 0 when every weight is zero.
    """
    log_weights = log_weights.double()
    log_size = 2 * torch.logsumexp(log_weights, dim=-1) - torch.logsumexp(2 * log_weights, dim=-1)
    return torch.where((log_weights == -torch.inf).all(dim=-1), 0.0, log_size.exp())


def pareto_k(log_weights: Tensor) -> Tensor:  # (..., n) -> (...)
    """Shape k-hat of a generalised Pareto fitted to the largest weights (Vehtari et al. 2024).

    Weights of tail index alpha have k = 1 / alpha; above `pareto_k_threshold(n)` n samples do not suffice.
    NaN where nothing can be fitted (fewer than 25 samples, equal weights at the foot of the tail), +inf where
    a few samples carry all the weight.
    """
    rows = log_weights.detach().double().cpu().reshape(-1, log_weights.shape[-1])  # (N, n)
    values = [_pareto_k_of(row) for row in rows]
    return torch.tensor(values, dtype=torch.double, device=log_weights.device).reshape(log_weights.shape[:-1])


def pareto_k_threshold(num_samples: int) -> float:
    """The largest k-hat that n samples can cope with: min(1 - 1 / log10(n), 0.7) (Vehtari et al. 2024)."""
    if num_samples < 2:
        raise LexergyError(f"`num_samples` is {num_samples}; expected at least 2; draw more samples.")
    return min(1 - 1 / math.log10(num_samples), 0.7)


def resample(log_weights: Tensor, uniforms: Tensor) -> Tensor:  # (..., n), (..., M) -> (..., M)
    """Indices drawn in proportion to the weights, by the inverse of their distribution function.

    P(index = i) = w_i / sum_j w_j for a uniform number in [0, 1); line 4 of Algorithm 1, Deng et al. 2020.
    Nothing random happens here: the same uniforms give the same indices.
    """
    log_weights = log_weights.double()
    largest = log_weights.amax(dim=-1, keepdim=True)  # (..., 1)
    if not largest.isfinite().all():
        raise LexergyError(
            f"the largest log-weight is {largest.flatten().tolist()}; expected a finite number; an energy of "
            "+inf, -inf or NaN on every candidate leaves nothing to resample: check the energy."
        )
    cumulative = (log_weights - largest).exp().cumsum(dim=-1)  # (..., n)
    thresholds = uniforms.double() * cumulative[..., -1:]  # (..., M)
    indices = torch.searchsorted(cumulative.contiguous(), thresholds.contiguous(), right=True)
    # A product rounded up to the whole sum would fall behind the last sample that has any weight.
    last = torch.searchsorted(cumulative.contiguous(), cumulative[..., -1:].contiguous())  # (..., 1)
    return torch.minimum(indices, last)


def _pareto_k_of(log_weights: Tensor) -> float:  # (n,)
    tail = _tail_size(len(log_weights))
    if tail < 5:
        return math.nan
    weights = (log_weights - log_weights.max()).exp().sort().values  # (n,) largest is 1
    if weights.isnan().any() or weights[-tail] == 1:
        return math.nan
    # The fit is scaled by the tail's lower quartile above the cutoff; where that is zero, arviz-stats would
    # answer with its prior.
    cutoff, quartile = weights[-tail - 1], weights[-tail + int(tail / 4 + 0.5) - 1]
    if quartile < 1e-290:
        return math.inf
    if quartile == cutoff:
        return math.nan
    # Imported here because it takes seconds.
    from arviz_stats.base import array_stats

    # psislw takes log-likelihoods and weighs by their inverse, so it wants -log w. (pareto_khat would fit the
    # log-weights themselves, whatever its `log_weights` says.)
    _, k = array_stats.psislw(-log_weights.numpy(), r_eff=1.0)
    return float(k)


def _tail_size(num_samples: int) -> int:
    """How many of the largest weights are fitted: min(n / 5, 3 sqrt(n)) (Vehtari et al. 2024)."""
    return int(min(num_samples / 5, 3 * math.sqrt(num_samples)))
