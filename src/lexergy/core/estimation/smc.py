"""Sequential Monte Carlo: particles are weighed by partial energies while they are written, and resampled by them.

K particles grow token by token by P_LM. What a text so far is worth is its twist psi_t(x_<=t) > 0, with psi_0 = 1 and
psi_T = exp(-E): whatever the twists between, the last target is P_LM exp(-E) (Zhao et al. 2024; Lew et al. 2023).
The K particles of a run are the last dimension everywhere.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from lexergy.core.estimation import importance, partition
from lexergy.errors import LexergyError


class Population(NamedTuple):
    """The particles of runs, without their texts."""

    log_weights: Tensor  # (..., K) log psi_t(x_<=t) - log psi_s(x_<=s), s the last resampling
    paid: Tensor  # (..., K) log psi_s(x_<=s)
    log_z: Tensor  # (...) sum over resamplings so far of the log of the mean weight
    origins: Tensor  # (..., K) which of the first particles each descends from
    num_resamplings: Tensor  # (...)

    @classmethod
    def start(cls, *shape: int) -> "Population":
        """Nothing is written, and all weigh the same; the last of the sizes is K."""
        origins = torch.arange(shape[-1]).expand(shape)
        zeros = torch.zeros(shape, dtype=torch.double)
        return cls(zeros, zeros, zeros[..., 0], origins, torch.zeros(shape[:-1], dtype=torch.long))

    def weighed(self, log_twist: Tensor) -> "Population":  # (..., K)
        """The same particles, whose texts so far are worth psi_t now."""
        return self._replace(log_weights=log_twist.double() - self.paid)

    @property
    def ess(self) -> Tensor:  # (...)
        return importance.effective_sample_size(self.log_weights)

    @property
    def log_z_estimate(self) -> Tensor:  # (...)
        """log Z^ = sum_s log 1/K sum_k w_s^k over resamplings and the end; E[Z^] = Z for every K and every twist."""
        return self.log_z + partition.lower_bound(self.log_weights)

    @property
    def num_ancestors(self) -> Tensor:  # (...)
        """How many of the first particles have descendants."""
        ordered = self.origins.sort(-1).values
        return 1 + (ordered[..., 1:] != ordered[..., :-1]).sum(-1)


class Resampled(NamedTuple):
    population: Population
    ancestors: Tensor  # (..., K) which particle each goes on from


def resample(
    population: Population,
    uniforms: Tensor,  # (...)
    *,
    below: float,
    keep_first: bool = False,
    going_on: Tensor | None = None,  # (...) bool
) -> Resampled:
    """Resample the runs whose effective sample size is less than `below` times K; the others stay as they are.

    So do runs that are not `going_on`: where all texts have ended, nothing is gained.

    With `keep_first`, particle 0 has the text that a conditional run keeps (Andrieu et al. 2010): it goes on from
    itself, and the others as they do given that it does.
    """
    num_particles = population.log_weights.shape[-1]
    due = population.ess < below * num_particles
    due &= population.log_weights.amax(-1) > -torch.inf  # weights that are all zero leave nothing to choose from
    due = due if going_on is None else due & going_on
    stay = torch.arange(num_particles).expand_as(population.origins)
    log_weights = torch.where(due.unsqueeze(-1), population.log_weights, 0.0)
    ancestors = torch.where(due.unsqueeze(-1), systematic(log_weights, uniforms, keep_first), stay)
    current = population.paid + population.log_weights  # (..., K) log psi_t
    paid = torch.where(due.unsqueeze(-1), current, population.paid).gather(-1, ancestors)
    return Resampled(
        Population(
            log_weights=torch.where(due.unsqueeze(-1), 0.0, population.log_weights),
            paid=paid,
            log_z=population.log_z + torch.where(due, partition.lower_bound(population.log_weights), 0.0),
            origins=population.origins.gather(-1, ancestors),
            num_resamplings=population.num_resamplings + due,
        ),
        ancestors,
    )


def systematic(
    log_weights: Tensor, uniforms: Tensor, keep_first: bool = False
) -> Tensor:  # (..., K), (...) -> (..., K)
    """Systematic resampling on a circle: particle m goes on from the one at (v + m/K) mod 1, v uniform in [0, 1).

    Each has K W_i descendants, rounded up or down, where multinomial resampling draws their number: the least noise of
    the usual schemes (Douc and Cappe 2005). v turns the whole circle, not 1/K of it, so that P(a_m = i) = W_i for every
    single m, and neither turning the particles nor their descendants changes anything: this is what a conditional
    run needs. There particle 0 goes on from itself, so that v is uniform in [0, W_0) (Chopin and Singh 2015).
    """
    num_particles = log_weights.shape[-1]
    start = uniforms.double().unsqueeze(-1)  # (..., 1)
    if keep_first:
        start = start * log_weights.double().softmax(-1)[..., :1]
    points = (start + torch.arange(num_particles, dtype=torch.double) / num_particles) % 1.0  # (..., K)
    ancestors = importance.resample(log_weights, points)
    if keep_first:
        ancestors[..., 0] = 0  # whatever rounding says
    return ancestors


class Twist(NamedTuple):
    """What a text so far is worth by its own energy: log psi_t = -(a_t + b_t E(x_<=t)), t = 1 .. T."""

    intercept: Tensor  # (T,) a
    slope: Tensor  # (T,) b

    def log_twist(self, energy: Tensor, length: int) -> Tensor:  # (...) -> (...)
        """Of texts of `length` tokens that go on, by the energy that they have so far."""
        return -(self.intercept[length - 1] + self.slope[length - 1] * energy.double())


def proportional_twist(length: int) -> Twist:
    """b_t = t / T: the part of the energy that is known, where it is a mean over T tokens, E = 1/T sum_t e_t."""
    share = torch.arange(1, length + 1, dtype=torch.double) / length
    return Twist(torch.zeros_like(share), share)


def fit_twist(partial: Tensor, final: Tensor, alive: Tensor | None = None) -> Twist:  # (B, n, T), (B, n), (B, n, T)
    """Least squares of the energy of n texts of each of B prefixes on what it was after t tokens.

    The best twist is psi_t = E[exp(-E) | x_<=t]. Where E is a_t + b_t E(x_<=t) with a normal residual of variance s^2,
    this is exp(-(a_t + b_t E(x_<=t)) + s^2 / 2). Particles of one prefix are compared, so the slope is that within
    prefixes. Texts count while they are `alive`; what has ended has its own energy. Slopes that fewer than three
    texts would decide are t / T.
    """
    partial, final = partial.double(), final.double()
    counted = torch.ones_like(partial) if alive is None else alive.double()  # (B, n, T)
    number = counted.sum(1)  # (B, T)

    def centre(values: Tensor) -> Tensor:  # (B, n, T) -> (B, 1, T)
        return ((values * counted).sum(1) / number.clamp(min=1)).unsqueeze(1)

    last = final.unsqueeze(-1).expand_as(partial)
    own, target = ((values - centre(values)) * counted for values in (partial, last))
    spread = (own**2).sum((0, 1))  # (T,)
    proportional = proportional_twist(partial.shape[-1])
    few = (number.sum(0) < 3) | (spread <= 1e-12)
    slope = torch.where(few, proportional.slope, (own * target).sum((0, 1)) / spread.clamp(min=1e-12))
    total = number.sum(0).clamp(min=1)
    residual = ((target - slope * own) ** 2).sum((0, 1)) / total
    rest = ((last - slope * partial) * counted).sum((0, 1)) / total
    return Twist(torch.where(few, 0.0, rest - residual / 2), slope)


@dataclass(frozen=True)
class Resampling:
    """When particles are resampled, and by which twist.

    Every so many tokens, where the effective sample size is below this share of K. Without a twist it is t / T times
    the energy of the text so far (`proportional_twist`).
    """

    every: int = 4
    below: float = 0.5
    twist: Twist | None = None

    def __post_init__(self) -> None:
        if self.every < 1:
            raise LexergyError(f"`every` is {self.every}; expected at least 1 token; 4 is usual.")
        if not 0 <= self.below <= 1:
            raise LexergyError(
                f"`below` is {self.below}; expected 0 to 1, a share of the particles; 0.5 is usual, 0 never resamples."
            )

    def twist_of(self, length: int) -> Twist:
        """The twist for texts of this length."""
        if self.twist is None:
            return proportional_twist(length)
        if len(self.twist.slope) != length:
            raise LexergyError(
                f"the twist is for texts of {len(self.twist.slope)} tokens, and they have {length}; expected one "
                "length; fit it again, or leave it out."
            )
        return self.twist
