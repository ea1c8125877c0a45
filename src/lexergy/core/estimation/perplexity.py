"""The joint model's perplexity as an interval, from the log-weights of samples."""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from lexergy.core.estimation import importance, partition
from lexergy.core.estimation.bootstrap import bootstrap_std_error
from lexergy.errors import LexergyError

_WEIGHTS_AT_ONCE = 2**19


@dataclass(frozen=True)
class WindowEstimates:
    """What the perplexity is made of: one number per window."""

    base_log_prob: Tensor  # (B,) log P_LM(continuation | prefix)
    energy: Tensor  # (B,) E(x) of the window's own text
    log_z: partition.PartitionCurve  # (B, S): both bounds, from ever more samples
    ess: Tensor  # (B,)
    pareto_k: Tensor  # (B,)

    @property
    def log_z_lower(self) -> Tensor:  # (B,)
        """From all samples."""
        return self.log_z.lower[:, -1]

    @property
    def log_z_upper(self) -> Tensor:  # (B,)
        """From all samples."""
        return self.log_z.upper[:, -1]

    @property
    def pessimistic_gain(self) -> Tensor:  # (B,)
        """-(E + log Z), what the energy adds to the window's log-probability, with the upper bound of log Z."""
        return -(self.energy + self.log_z_upper)


@dataclass(frozen=True)
class CurvePoint:
    """The interval from fewer samples (Fig. 2 left, Deng et al. 2020)."""

    num_samples: int
    lower: float
    upper: float


@dataclass(frozen=True)
class PerplexityEstimate:
    """Perplexity of the joint model, between an optimistic and a pessimistic value, beside the base LM's.

    Computed, stored, printed and plotted as it is.
    """

    base: float  # the LM alone
    lower: float  # optimistic: from the lower bound of log Z
    upper: float  # pessimistic: from the upper bound of log Z; the one to quote
    std_error: float  # of `upper`, bootstrap over windows
    gain: float  # nats per token, pessimistic: log base - log upper
    gain_std_error: float  # paired bootstrap over windows
    ess: float  # mean over windows
    pareto_k: float  # median over windows; NaN with too few samples
    pareto_k_above: float  # fraction of windows above the threshold
    pareto_k_threshold: float
    num_samples: int
    num_windows: int
    continuation_length: float  # tokens, on average where texts end sooner
    curve: tuple[CurvePoint, ...]
    windows: WindowEstimates = field(compare=False)

    @property
    def reliable(self) -> bool:
        """Whether k-hat leaves the median window in no doubt (or cannot be fitted)."""
        return not self.pareto_k > self.pareto_k_threshold


@dataclass(frozen=True)
class ExactPerplexity:
    """Perplexity of a model that is normalised token by token, beside the base LM's on the same windows."""

    perplexity: float
    std_error: float  # bootstrap over windows
    gain: float  # nats per token over the base LM
    gain_std_error: float  # paired bootstrap over windows
    num_windows: int


def exact_perplexity(
    log_prob: Tensor,  # (B,)
    base_log_prob: Tensor,  # (B,)
    continuation_length: float,
    seed: int = 0,
) -> ExactPerplexity:
    """exp(-1/(B C) sum_b log P(x_b)) from the log-probability of each window. `seed` is the bootstrap's."""
    per_token = log_prob.detach().double().cpu() / continuation_length  # (B,)
    gain = per_token - base_log_prob.detach().double().cpu() / continuation_length  # (B,)
    return ExactPerplexity(
        perplexity=float(_perplexity(per_token)),
        std_error=bootstrap_std_error(per_token, seed, statistic=_perplexity),
        gain=float(gain.mean()),
        gain_std_error=bootstrap_std_error(gain, seed),
        num_windows=len(gain),
    )


def perplexity_from_weights(
    base_log_prob: Tensor,  # (B,)
    energy: Tensor,  # (B,)
    log_weights: Tensor,  # (B, n)
    continuation_length: float,
    seed: int = 0,
) -> PerplexityEstimate:
    """The estimate from log P_LM(x) and E(x) of each window, and log w_i = -E(x_i) of its n LM samples.

    exp(-1/(B C) sum_b [log P_LM(x_b) - E(x_b) - log Z_b]), Sec. 3.2, Deng et al. 2020, with log Z_b from both
    sides of Theorem 2. `seed` is the bootstrap's.
    """
    if continuation_length < 1:
        raise LexergyError(f"`continuation_length` is {continuation_length}; expected at least 1.")
    windows = window_estimates(base_log_prob, energy, log_weights)
    num_samples = log_weights.shape[1]
    gain = windows.pessimistic_gain / continuation_length  # (B,)
    base = windows.base_log_prob / continuation_length  # (B,)
    threshold = importance.pareto_k_threshold(num_samples)
    unscaled = (windows.base_log_prob - windows.energy)[:, None]  # (B, 1)
    lower, upper = (
        _perplexity((unscaled - bound).T / continuation_length).tolist()  # S
        for bound in (windows.log_z.lower, windows.log_z.upper)
    )
    return PerplexityEstimate(
        base=float(_perplexity(base)),
        lower=lower[-1],
        upper=upper[-1],
        std_error=bootstrap_std_error(base + gain, seed, statistic=_perplexity),
        gain=float(gain.mean()),
        gain_std_error=bootstrap_std_error(gain, seed),
        ess=float(windows.ess.mean()),
        pareto_k=float(windows.pareto_k.nanmedian()),
        pareto_k_above=float((windows.pareto_k > threshold).double().mean()),
        pareto_k_threshold=threshold,
        num_samples=num_samples,
        num_windows=len(gain),
        continuation_length=continuation_length,
        curve=tuple(map(CurvePoint, windows.log_z.sizes, lower, upper)),
        windows=windows,
    )


def window_estimates(
    base_log_prob: Tensor,  # (B,)
    energy: Tensor,  # (B,)
    log_weights: Tensor,  # (B, n)
) -> WindowEstimates:
    """Bounds on log Z of each window and how far to trust its weights, beside log P_LM and E of its own text."""
    _check_shapes(base_log_prob, energy, log_weights)
    num_samples = log_weights.shape[1]
    sizes = partition.doubling_sizes(num_samples)
    # A few windows at a time, so that the double-precision copies stay small however many samples there are.
    groups = log_weights.detach().cpu().split(max(1, _WEIGHTS_AT_ONCE // num_samples))
    curves = [partition.curve(group, sizes) for group in groups]
    return WindowEstimates(
        base_log_prob=base_log_prob.detach().double().cpu(),
        energy=energy.detach().double().cpu(),
        log_z=partition.PartitionCurve(
            sizes, torch.cat([curve.lower for curve in curves]), torch.cat([curve.upper for curve in curves])
        ),
        ess=torch.cat([importance.effective_sample_size(group) for group in groups]),
        pareto_k=torch.cat([importance.pareto_k(group) for group in groups]),
    )


def _perplexity(log_prob_per_token: Tensor) -> Tensor:  # (..., B) -> (...)
    return torch.exp(-log_prob_per_token.mean(dim=-1))


def _check_shapes(base_log_prob: Tensor, energy: Tensor, log_weights: Tensor) -> None:
    shapes = [tuple(tensor.shape) for tensor in (base_log_prob, energy, log_weights)]
    num_windows = base_log_prob.shape[0] if base_log_prob.ndim else 0
    if shapes != [(num_windows,), (num_windows,), (num_windows, log_weights.shape[-1])] or num_windows == 0:
        raise LexergyError(
            f"base_log_prob, energy and log_weights have shapes {shapes[0]}, {shapes[1]} and {shapes[2]}; "
            "expected (B,), (B,) and (B, n) with at least one window."
        )
    if log_weights.shape[1] < 2:
        raise LexergyError(
            f"`num_samples` is {log_weights.shape[1]}; expected at least 2; the upper bound leaves one out."
        )
