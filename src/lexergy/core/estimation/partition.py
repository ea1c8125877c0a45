"""Bounds on the log partition function, log Z = log E_LM[exp(-E)], from samples of the language model.

The n log-weights of a prefix, log w_i = -E(x_i) with x_i ~ P_LM, are the last dimension everywhere.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from lexergy.errors import LexergyError


def lower_bound(log_weights: Tensor) -> Tensor:  # (..., n) -> (...)
    """The plain estimate, below log Z in expectation (Jensen).

    T_n = log 1/n sum_i w_i, left side of Eq. 4, Theorem 2, Deng et al. 2020. Double precision; -inf when
    every weight is zero.
    """
    num_samples = _num_samples(log_weights, at_least=1)
    return torch.logsumexp(log_weights.double(), dim=-1) - torch.tensor(float(num_samples)).double().log()


def upper_bound(log_weights: Tensor) -> Tensor:  # (..., n) -> (...)
    """The jackknifed estimate, above log Z in expectation once n is large enough for the weights' tail.

    (2n - 1) T_n - 2(n - 1) 1/n sum_i T_{n-1}^{(-i)}, right side of Eq. 4, Theorem 2, Deng et al. 2020, where
    T_{n-1}^{(-i)} leaves sample i out (Nowozin 2018). With p_i = w_i / sum_j w_j it is

        T_n - 2(n - 1) [log n/(n-1) + 1/n sum_i log(1 - p_i)],

    which subtracts no large numbers. Fewer than two positive weights bound nothing: +inf. No bound either where a few
    samples carry the weight (see `importance.effective_sample_size`); `sampler_log_z` is safe there.
    """
    num_samples = _num_samples(log_weights, at_least=2)
    log_weights = log_weights.double()
    estimate = lower_bound(log_weights)  # (...)
    mean_log_rest = _log_rest(log_weights).mean(dim=-1)  # (...)
    log_ratio = torch.log1p(torch.tensor(1.0 / (num_samples - 1), dtype=torch.double))
    bound = estimate - 2 * (num_samples - 1) * (log_ratio + mean_log_rest)
    return torch.where(estimate.isinf(), torch.inf, bound)


def sampler_log_z(own: Tensor, rest: Tensor) -> Tensor:  # (...), (..., m - 1) -> (...)
    """What stands for log Z in the density of resampling: log 1/m [w(x) + sum_i w_i], the text's own weight among m.

    Algorithm 1, Deng et al. 2020, draws m candidates of the LM and keeps one with probability proportional to its
    weight. The density of text and the m - 1 candidates left over is then P_LM(x) w(x) / Z^ prod_i P_LM(x_i) with
    log Z^ = `sampler_log_z`, and that of the text alone is E_LM[P_LM(x) w(x) / Z^] over m - 1 free samples of the LM
    (Lawson et al. 2019). Both are exact for any m, where P_LM(x) w(x) / Z is neither. Given are log-weights.
    """
    return lower_bound(torch.cat([own.unsqueeze(-1), rest], dim=-1))


@dataclass(frozen=True)
class PartitionCurve:
    """log Z against the number of samples (Fig. 2 left, Deng et al. 2020): both bounds, and the sampler's."""

    sizes: tuple[int, ...]
    lower: Tensor  # (..., S)
    upper: Tensor  # (..., S)
    sampler: Tensor  # (..., S)


def curve(own: Tensor, log_weights: Tensor, sizes: Sequence[int]) -> PartitionCurve:  # (...), (..., n)
    """Bounds from growing numbers of samples; `own` is the log-weight of the text itself.

    The bounds at size m are averaged over the n // m disjoint blocks of m consecutive samples, which leaves
    their expectation as it is and makes the curve less noisy; from m > n/2 on there is one block, the first m
    samples. The last n mod m samples of a size are not used. `sampler_log_z` of m candidates takes the text itself
    and m - 1 samples of a block.
    """
    num_samples = log_weights.shape[-1]
    for size in sizes:
        if not 2 <= size <= num_samples:
            raise LexergyError(
                f"curve size {size} was asked of {num_samples} samples; expected 2 to {num_samples}; "
                "draw more samples or leave that size out."
            )
    lower, upper, sampler = [], [], []
    for size in sizes:
        num_blocks = num_samples // size
        blocks = log_weights[..., : num_blocks * size].unflatten(-1, (num_blocks, size))  # (..., n // m, m)
        lower.append(lower_bound(blocks).mean(dim=-1))
        upper.append(upper_bound(blocks).mean(dim=-1))
        candidate = own.unsqueeze(-1).expand(blocks.shape[:-1])  # (..., n // m)
        sampler.append(sampler_log_z(candidate, blocks[..., :-1]).mean(dim=-1))
    return PartitionCurve(tuple(sizes), *(torch.stack(values, dim=-1) for values in (lower, upper, sampler)))


def doubling_sizes(num_samples: int) -> tuple[int, ...]:
    """Sizes for a curve: the number of samples halved again and again, down to at least 4 (or n itself)."""
    sizes = [num_samples]
    while sizes[-1] >= 8:
        sizes.append(sizes[-1] // 2)
    return tuple(reversed(sizes))


def _log_rest(log_weights: Tensor) -> Tensor:  # (..., n) -> (..., n)
    """log(1 - p_i), the share of the weight that is left without sample i.

    Every share but the largest is at most 1/2, where log1p is exact; the largest is summed up without itself,
    because 1 - p cancels when one weight dominates.
    """
    log_total = torch.logsumexp(log_weights, dim=-1, keepdim=True)  # (..., 1)
    log_rest = torch.log1p(-(log_weights - log_total).exp())  # (..., n)
    largest = log_weights.argmax(dim=-1, keepdim=True)  # (..., 1)
    without_largest = log_weights.scatter(-1, largest, -torch.inf)  # (..., n)
    log_rest_of_largest = torch.logsumexp(without_largest, dim=-1, keepdim=True) - log_total  # (..., 1)
    return log_rest.scatter(-1, largest, log_rest_of_largest)


def _num_samples(log_weights: Tensor, *, at_least: int) -> int:
    num_samples = log_weights.shape[-1] if log_weights.ndim else 0
    if num_samples < at_least:
        raise LexergyError(
            f"log_weights of shape {tuple(log_weights.shape)} hold {num_samples} samples (last dimension); "
            f"expected at least {at_least}; draw more samples."
        )
    return num_samples
