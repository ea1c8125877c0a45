"""Sequential Monte Carlo: particles are weighed by partial energies while they are written, and resampled by them.

K particles grow token by token by P_LM. What a text so far is worth is its twist psi_t(x_<=t) > 0, with psi_0 = 1 and
psi_T = exp(-E): whatever the twists between, the last target is P_LM exp(-E) (Zhao et al. 2024; Lew et al. 2023).
The K particles of a run are the last dimension everywhere.

Texts may end at different lengths. One that has ended has the weight exp(-E) for good, and nothing is drawn after it;
one that goes on is worth psi_t, which guesses at its exp(-E) up to a factor that nobody knows at t. So they are never
compared: those that go on are resampled among themselves, and the others stay as they are.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from lexergy.core.estimation import importance, partition
from lexergy.core.estimation.proposals import TokenTilt
from lexergy.errors import LexergyError

_NOTHING = 1e-12  # a sum of squares that is none


class Population(NamedTuple):
    """The particles of runs, without their texts."""

    log_weights: Tensor  # (..., K) log v psi_t(x_<=t)
    log_carried: Tensor  # (..., K) log v; 1/K sum_k v_k f(x_k) has the mean E_LM[f], whatever was resampled
    origins: Tensor  # (..., K) which of the first particles each descends from
    num_resamplings: Tensor  # (...)

    @classmethod
    def start(cls, *shape: int) -> "Population":
        """Nothing is written, and all weigh the same; the last of the sizes is K."""
        origins = torch.arange(shape[-1]).expand(shape)
        zeros = torch.zeros(shape, dtype=torch.double)
        return cls(zeros, zeros, origins, torch.zeros(shape[:-1], dtype=torch.long))

    def weighed(self, log_twist: Tensor) -> "Population":  # (..., K)
        """The same particles, whose texts so far are worth psi_t now."""
        return self._replace(log_weights=self.log_carried + log_twist.double())

    @property
    def ess(self) -> Tensor:  # (...)
        return importance.effective_sample_size(self.log_weights)

    @property
    def log_z_estimate(self) -> Tensor:  # (...)
        """log Z^ = log 1/K sum_k v_k exp(-E(x_k)) at the end; E[Z^] = Z for every K and every twist."""
        return partition.lower_bound(self.log_weights)

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
    alive: Tensor | None = None,  # (..., K) bool
) -> Resampled:
    """Resample, among the n particles that are `alive`, those of runs whose ESS is less than `below` times n.

    Particle m goes on from a_m, drawn with w_i / sum_j w_j for w = v psi_t, and carries v_m = 1/n sum_j w_j / psi_t of
    its ancestor, so that no mean changes. What has ended keeps its weight, and so does a run that is not due.

    With `keep_first`, particle 0 has the text that a conditional run keeps (Andrieu et al. 2010): while it is alive it
    goes on from itself, and the others as they do given that it does.
    """
    alive = torch.ones_like(population.origins, dtype=torch.bool) if alive is None else alive
    number = alive.sum(-1)  # (...) n
    own = population.log_weights.masked_fill(~alive, -torch.inf)
    possible = own.amax(-1) > -torch.inf  # weights that are all zero leave nothing to choose from
    due = possible & (importance.effective_sample_size(own) < below * number)
    moved = alive & due.unsqueeze(-1)  # (..., K)
    stay = torch.arange(own.shape[-1]).expand_as(own)
    drawn = systematic(torch.where(possible.unsqueeze(-1), own, 0.0), uniforms, keep_first, alive)
    ancestors = torch.where(moved, drawn, stay)
    log_mean = (own.logsumexp(-1) - number.double().log()).unsqueeze(-1)  # (..., 1)
    log_twist = (population.log_weights - population.log_carried).gather(-1, ancestors)
    return Resampled(
        Population(
            log_weights=torch.where(moved, log_mean, population.log_weights),
            log_carried=torch.where(moved, log_mean - log_twist, population.log_carried),
            origins=population.origins.gather(-1, ancestors),
            num_resamplings=population.num_resamplings + due,
        ),
        ancestors,
    )


def systematic(
    log_weights: Tensor,  # (..., K)
    uniforms: Tensor,  # (...)
    keep_first: bool = False,
    alive: Tensor | None = None,  # (..., K) bool
) -> Tensor:  # (..., K)
    """Systematic resampling on a circle: particle m goes on from the one at (v + m/K) mod 1, v uniform in [0, 1).

    Each has K W_i descendants, rounded up or down, where multinomial resampling draws their number: the least noise of
    the usual schemes (Douc and Cappe 2005). v turns the whole circle, not 1/K of it, so that P(a_m = i) = W_i for every
    single m, and neither turning the particles nor their descendants changes anything: this is what a conditional
    run needs. There particle 0 goes on from itself, so that v is uniform in [0, W_0) (Chopin and Singh 2015).

    Where only some are `alive`, the circle is theirs, and m and K count them; the others have weight 0.
    """
    alive = torch.ones_like(log_weights, dtype=torch.bool) if alive is None else alive
    start = uniforms.double().unsqueeze(-1)  # (..., 1)
    keeps = alive[..., :1] & keep_first  # a kept text that has ended is no ancestor here
    start = torch.where(keeps, start * log_weights.double().softmax(-1)[..., :1], start)
    place, number = alive.cumsum(-1) - 1, alive.sum(-1, keepdim=True)  # m and K among the alive
    points = (start + place.double() / number.clamp(min=1)) % 1.0  # (..., K)
    ancestors = importance.resample(log_weights, points)
    ancestors[..., :1][keeps] = 0  # whatever rounding says
    return ancestors


class Twist(NamedTuple):
    """What a text so far is worth: log psi_t = -b_t E(x_<=t) - a_t R_t, t = 1 .. T, up to a constant.

    E(x_<=t) is its own energy. R_t = log P_LM / q is what its tokens were guessed to add to the energy when a tilt drew
    them; a_t is the part of that which is still to come. Only texts that go on after as many tokens are compared by it,
    so that no constant changes anything.
    """

    slope: Tensor  # (T,) b
    owed: Tensor  # (T,) a

    def log_twist(self, energy: Tensor, log_ratio: Tensor, length: int) -> Tensor:  # (...), (...) -> (...)
        """Of texts of `length` tokens that go on, by the energy that they have so far."""
        place = length - 1
        return -self.slope[place] * energy.double() - self.owed[place] * log_ratio.double()


def proportional_twist(length: int) -> Twist:
    """b_t = t / T: the part of the energy that is known, where it is a mean over T tokens, E = 1/T sum_t e_t."""
    slope = torch.arange(1, length + 1, dtype=torch.double) / length
    return Twist(slope, torch.zeros_like(slope))


def fit_twist(
    partial: Tensor,  # (B, n, T)
    final: Tensor,  # (B, n)
    alive: Tensor | None = None,  # (B, n, T) bool
    log_ratio: Tensor | None = None,  # (B, n, T)
) -> Twist:
    """Least squares of the energy of n texts of each of B prefixes on what is known of it after t tokens.

    The best twist is psi_t = E[exp(-E) | x_<=t]. Where E is c + b_t E(x_<=t) + a_t R_t with a normal residual of
    variance s^2, this is exp(-(c + b_t E(x_<=t) + a_t R_t) + s^2 / 2), of which b_t and a_t are what matters. Particles
    of one prefix are compared, so the slopes are those within prefixes. Texts count while they are `alive`; what has
    ended has its own energy. Slopes that fewer than three texts would decide are t / T; without a tilt, R is zero.
    """
    partial, final = partial.double(), final.double()
    counted = torch.ones_like(partial) if alive is None else alive.double()  # (B, n, T)
    number = counted.sum(1)  # (B, T)

    def centred(values: Tensor) -> Tensor:  # (B, n, T) -> (B, n, T)
        mean = (values * counted).sum(1) / number.clamp(min=1)
        return (values - mean.unsqueeze(1)) * counted

    last = centred(final.unsqueeze(-1).expand_as(partial))
    own, drawn = centred(partial), centred(torch.zeros_like(partial) if log_ratio is None else log_ratio.double())
    proportional = proportional_twist(partial.shape[-1])
    few = (number.sum(0) < 3) | (_over_texts(own, own) <= _NOTHING)
    alone = _over_texts(own, last) / _over_texts(own, own).clamp(min=_NOTHING)  # (T,)
    # What R knows beside E(x_<=t): the rest of it after regression on that.
    along = _over_texts(own, drawn) / _over_texts(own, own).clamp(min=_NOTHING)
    beside = drawn - along * own
    owed = torch.where(few, 0.0, _over_texts(beside, last) / _over_texts(beside, beside).clamp(min=_NOTHING))
    return Twist(torch.where(few, proportional.slope, alone - owed * along), owed)


def _over_texts(first: Tensor, second: Tensor) -> Tensor:  # (B, n, T), (B, n, T) -> (T,)
    return (first * second).sum((0, 1))


@dataclass(frozen=True)
class Resampling:
    """When particles are resampled, and by which twist.

    Every so many tokens, where the effective sample size of those that go on is below this share of their number.
    Without a twist it is t / T times the energy of the text so far (`proportional_twist`). With a tilt, tokens are
    drawn by it, and a text so far is worth psi_t P_LM / q: the energy of which q is the LM is E - log P_LM / q.
    """

    every: int = 4
    below: float = 0.5
    twist: Twist | None = None
    tilt: TokenTilt | None = None

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
        _check_length("twist", len(self.twist.slope), length)
        return self.twist

    def tilt_of(self, length: int) -> TokenTilt | None:
        """The tilt for texts of this length, if there is one."""
        if self.tilt is not None:
            _check_length("tilt", len(self.tilt.strength), length)
        return self.tilt


def _check_length(name: str, own: int, length: int) -> None:
    if own != length:
        raise LexergyError(
            f"the {name} is for texts of {own} tokens, and they have {length}; expected one length; fit it again, or "
            "leave it out."
        )
