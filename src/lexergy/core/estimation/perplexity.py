"""The joint model's perplexity from the log-weights of samples: what it is at most, and an interval."""

import math
from collections.abc import Hashable, Sequence
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
    log_z: partition.PartitionCurve  # (B, S): from ever more samples
    ess: Tensor  # (B,)
    pareto_k: Tensor  # (B,)
    documents: tuple[Hashable, ...]  # B: where each was cut from; windows of one document are alike

    @property
    def log_z_lower(self) -> Tensor:  # (B,)
        """From all samples."""
        return self.log_z.lower[:, -1]

    @property
    def log_z_upper(self) -> Tensor:  # (B,)
        """From all samples."""
        return self.log_z.upper[:, -1]

    @property
    def gain(self) -> Tensor:  # (B,)
        """What the energy adds to the window's log-probability at least: -(E + log Z^), by `sampler_log_z`."""
        return -(self.energy + self.log_z.sampler[:, -1])

    @property
    def optimistic_gain(self) -> Tensor:  # (B,)
        """And at most: -(E + T_n), since T_n is below log Z in expectation for any n and any tail."""
        return -(self.energy + self.log_z_lower)


@dataclass(frozen=True)
class CurvePoint:
    """The numbers from fewer samples (Fig. 2 left, Deng et al. 2020)."""

    num_samples: int
    bound: float
    lower: float
    upper: float


@dataclass(frozen=True)
class PerplexityEstimate:
    """Perplexity of the joint model beside the base LM's: at most `bound`, by estimate between `lower` and `upper`.

    `bound` is that of what Algorithm 1 draws from n candidates, and holds in expectation for every n and every tail
    of the weights (Lawson et al. 2019). `lower` and `upper` are the ends of Theorem 2 (Deng et al. 2020), which
    few samples of heavy-tailed weights do not bear out: `doubt`. Computed, stored, printed and plotted as it is.
    """

    base: float  # the LM alone
    bound: float  # from the sampler's density; the one to quote
    lower: float  # optimistic: from the lower bound of log Z
    upper: float  # pessimistic, where the weights can be trusted: from the upper bound of log Z
    std_error: float  # of `bound`, bootstrap over documents
    gain: float  # nats per token, at least: log base - log bound
    gain_std_error: float  # paired bootstrap over documents
    ess: float  # mean over windows
    pareto_k: float  # median over windows; NaN with too few samples
    pareto_k_above: float  # fraction of windows above the threshold
    pareto_k_threshold: float
    num_samples: int
    num_windows: int
    num_documents: int
    continuation_length: float  # tokens, on average where texts end sooner
    curve: tuple[CurvePoint, ...]
    windows: WindowEstimates = field(compare=False)
    num_particles: int = 1  # of each sample, where samples are runs of SMC
    num_ancestors: float | None = None  # of those runs: how many of their first particles have descendants, on average

    @property
    def doubt(self) -> str | None:
        """Why the interval from `lower` to `upper` decides nothing, or None. `bound` needs none of this.

        n samples cannot tell a joint model whose divergence from the LM is beyond log n nats per continuation
        (Chatterjee and Diaconis 2018).
        """
        gain = math.log(self.base) - (math.log(self.upper) if self.upper else -math.inf)  # 0 where exp underflows
        most = math.log(self.num_samples) / self.continuation_length
        if self.num_samples < importance.FEWEST_FOR_PARETO_K:
            return f"{self.num_samples} samples per window are too few to judge the tail of their weights"
        if self.pareto_k > self.pareto_k_threshold:
            return f"k-hat {self.pareto_k:.2f} is above {self.pareto_k_threshold:.2f}"
        if not self.ess >= importance.LEAST_ESS:
            return f"the effective sample size {self.ess:.1f} is below {importance.LEAST_ESS}"
        if self.num_particles == 1 and abs(gain) > most:
            return f"{self.num_samples} samples per window can tell no more than {most:.3f} nats per token"
        return None


@dataclass(frozen=True)
class ExactPerplexity:
    """Perplexity of a model that is normalised token by token, beside the base LM's on the same windows."""

    perplexity: float
    std_error: float  # bootstrap over documents
    gain: float  # nats per token over the base LM
    gain_std_error: float  # paired bootstrap over documents
    num_windows: int
    num_documents: int


def exact_perplexity(
    log_prob: Tensor,  # (B,)
    base_log_prob: Tensor,  # (B,)
    continuation_length: float,
    seed: int = 0,
    *,
    documents: Sequence[Hashable] | None = None,  # B
) -> ExactPerplexity:
    """exp(-1/(B C) sum_b log P(x_b)) from the log-probability of each window.

    `seed` is that of the bootstrap, which draws whole `documents` again; without them each window is its own.
    """
    documents = _documents(documents, len(log_prob))
    per_token = log_prob.detach().double().cpu() / continuation_length  # (B,)
    gain = per_token - base_log_prob.detach().double().cpu() / continuation_length  # (B,)
    return ExactPerplexity(
        perplexity=float(_perplexity(per_token)),
        std_error=bootstrap_std_error(per_token, seed, groups=documents, statistic=_perplexity),
        gain=float(gain.mean()),
        gain_std_error=bootstrap_std_error(gain, seed, groups=documents),
        num_windows=len(gain),
        num_documents=len(set(documents)),
    )


def perplexity_from_weights(
    base_log_prob: Tensor,  # (B,)
    energy: Tensor,  # (B,)
    log_weights: Tensor,  # (B, n)
    continuation_length: float,
    seed: int = 0,
    *,
    documents: Sequence[Hashable] | None = None,  # B
    own: Tensor | None = None,  # (B,)
    num_particles: int = 1,
    num_ancestors: Tensor | None = None,  # (B, n)
) -> PerplexityEstimate:
    """The estimate from log P_LM(x) and E(x) of each window, and log w_i = -E(x_i) of its n LM samples.

    exp(-1/(B C) sum_b [log P_LM(x_b) - E(x_b) - log Z_b]), Sec. 3.2, Deng et al. 2020, with log Z_b from both
    sides of Theorem 2, and from `sampler_log_z` for the bound. `seed` is that of the bootstrap, which draws whole
    `documents` again; without them each window is its own. Of runs of SMC, `log_weights` are the log Z^ of n runs of
    `num_particles` each, and `own` is that of a run conditional on the text, which stands for -E(x) in the bound.
    """
    if continuation_length < 1:
        raise LexergyError(f"`continuation_length` is {continuation_length}; expected at least 1.")
    documents = _documents(documents, len(base_log_prob))
    windows = _window_estimates(base_log_prob, energy, log_weights, documents, -energy if own is None else own)
    num_samples = log_weights.shape[1]
    gain = windows.gain / continuation_length  # (B,)
    base = windows.base_log_prob / continuation_length  # (B,)
    threshold = importance.pareto_k_threshold(num_samples)
    unscaled = (windows.base_log_prob - windows.energy)[:, None]  # (B, 1)
    bound, lower, upper = (
        _perplexity((unscaled - log_z).T / continuation_length).tolist()  # S
        for log_z in (windows.log_z.sampler, windows.log_z.lower, windows.log_z.upper)
    )
    return PerplexityEstimate(
        base=float(_perplexity(base)),
        bound=bound[-1],
        lower=lower[-1],
        upper=upper[-1],
        std_error=bootstrap_std_error(base + gain, seed, groups=windows.documents, statistic=_perplexity),
        gain=float(gain.mean()),
        gain_std_error=bootstrap_std_error(gain, seed, groups=windows.documents),
        ess=float(windows.ess.mean()),
        pareto_k=float(windows.pareto_k.nanmedian()),
        pareto_k_above=float((windows.pareto_k > threshold).double().mean()),
        pareto_k_threshold=threshold,
        num_samples=num_samples,
        num_windows=len(gain),
        num_documents=len(set(windows.documents)),
        continuation_length=continuation_length,
        curve=tuple(map(CurvePoint, windows.log_z.sizes, bound, lower, upper)),
        windows=windows,
        num_particles=num_particles,
        num_ancestors=None if num_ancestors is None else float(num_ancestors.double().mean()),
    )


def _window_estimates(
    base_log_prob: Tensor,  # (B,)
    energy: Tensor,  # (B,)
    log_weights: Tensor,  # (B, n)
    documents: tuple[Hashable, ...],  # B
    own: Tensor,  # (B,)
) -> WindowEstimates:
    """log Z of each window and how far to trust its weights, beside log P_LM and E of its own text."""
    _check_shapes(base_log_prob, energy, log_weights)
    own, num_samples = own.detach().double().cpu(), log_weights.shape[1]
    sizes = partition.doubling_sizes(num_samples)
    # A few windows at a time, so that the double-precision copies stay small however many samples there are.
    at_once = max(1, _WEIGHTS_AT_ONCE // num_samples)
    parts = log_weights.detach().cpu().split(at_once)
    curves = [partition.curve(text, part, sizes) for text, part in zip(own.split(at_once), parts, strict=True)]
    return WindowEstimates(
        base_log_prob=base_log_prob.detach().double().cpu(),
        energy=energy.detach().double().cpu(),
        log_z=partition.PartitionCurve(
            sizes, *(torch.cat([getattr(curve, side) for curve in curves]) for side in ("lower", "upper", "sampler"))
        ),
        ess=torch.cat([importance.effective_sample_size(part) for part in parts]),
        pareto_k=torch.cat([importance.pareto_k(part) for part in parts]),
        documents=documents,
    )


def _documents(documents: Sequence[Hashable] | None, num_windows: int) -> tuple[Hashable, ...]:
    return tuple(range(num_windows)) if documents is None else tuple(documents)


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
