"""Sequential Monte Carlo on the joint model: particles share a prefix and are resampled by their partial energies."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from lexergy.core.conditions import UnlikeTrainingWarning
from lexergy.core.estimation import importance, smc
from lexergy.core.estimation.proposals import TokenTilt
from lexergy.core.estimation.smc import Population, Resampling, Twist
from lexergy.core.random import uniforms
from lexergy.errors import LexergyError
from lexergy.models.causal.batches import in_batches
from lexergy.models.causal.lm import weights_of
from lexergy.models.causal.samples import Samples
from lexergy.models.joint.sampling import Generation, candidates_of, chosen_among, differences, prompt_tokens, warn_of
from lexergy.models.joint.steering import Seen, Steering
from lexergy.models.joint.weights import ROWS_PER_BATCH, WeighedLM

NUM_RUNS = 16  # of which log Z is estimated, unless told otherwise


@dataclass(frozen=True)
class ParticleFacts:
    """How M runs of SMC went, for each of B prefixes."""

    log_z: Tensor  # (B, M) log Z^ of each run
    ess: Tensor  # (B, M) effective sample size at the end, since the last resampling
    num_ancestors: Tensor  # (B, M) how many of the first particles have descendants at the end
    num_resamplings: Tensor  # (B, M)

    @classmethod
    def of(cls, population: Population) -> "ParticleFacts":
        return cls(population.log_z_estimate, population.ess, population.num_ancestors, population.num_resamplings)


class ParticleRuns(NamedTuple):
    """M independent runs of K particles for each of B prefixes, at their end."""

    samples: Samples  # M K of each prefix, run by run
    energy: Tensor  # (B, M, K) float64
    population: Population  # (B, M, K)

    @property
    def log_z(self) -> Tensor:  # (B, M)
        """log Z^ of each run: i.i.d. over runs, Z^ unbiased."""
        return self.population.log_z_estimate

    @property
    def log_weights(self) -> Tensor:  # (B, M K)
        """By which one text of all runs is drawn: a run by its Z^, a particle of it by its share of that."""
        return self.population.log_weights.flatten(1)


def particle_runs(
    joint: WeighedLM,
    prefix: Tensor,  # (B, P)
    *,
    num_particles: int,
    num_runs: int,
    length: int,
    seed: int,
    prefix_ids: Sequence[int],
    resampling: Resampling,
    first_run: int = 0,
    kept: Tensor | None = None,  # (B, C)
    **sampling: Any,
) -> ParticleRuns:
    """Runs of SMC as one batch: x_t ~ P_LM, weighed by psi_t, resampled by `core.estimation.smc.resample`.

    Particle k of run m has the random numbers of sample m K + k: without resampling, the particles are the samples of
    importance sampling. With `kept` there is one run, conditional on that text. `sampling` is what `CausalLM.sample`
    takes (top_k, top_p, temperature, stop).
    """
    check_particles(joint, num_particles, num_runs)
    _check_tilt(resampling, sampling)
    steering = Steering(
        joint, prefix, (len(prefix), num_runs, num_particles), length, seed, prefix_ids, resampling, first_run, kept
    )
    samples = weights_of(joint.lm).sample(
        prefix,
        num_samples=num_runs * num_particles,
        first_sample=first_run * num_particles,
        max_new_tokens=length,
        seed=seed,
        prefix_ids=prefix_ids,
        features=joint.energy.features,
        resampler=steering,
        kept=kept,
        **sampling,
    )
    energy = joint.score(prefix, samples.tokens, samples.features, samples.lengths).double()
    energy = energy.view(len(prefix), num_runs, num_particles)
    assert samples.log_ratio is not None  # zero without a tilt
    log_ratio = samples.log_ratio.view(energy.shape)
    return ParticleRuns(samples, energy, steering.population.weighed(log_ratio - energy))


def run_populations(
    joint: WeighedLM,
    prefix: Tensor,  # (B, P)
    *,
    num_particles: int,
    num_runs: int,
    seed: int,
    prefix_ids: Sequence[int] | None = None,
    first_run: int = 0,
    rows_per_batch: int = ROWS_PER_BATCH,
    kept: Tensor | None = None,  # (B, C)
    **settings: Any,
) -> Population:  # (B, M, K)
    """The populations of all runs, their texts let go; a run is never divided.

    `rows_per_batch` changes speed, never results. `settings` are those of `particle_runs`.
    """
    check_particles(joint, num_particles, num_runs)
    ids = list(range(len(prefix)) if prefix_ids is None else prefix_ids)

    def compute(group: slice, first: int, count: int) -> Population:
        return particle_runs(
            joint,
            prefix[group],
            num_particles=num_particles,
            num_runs=count,
            first_run=first_run + first,
            seed=seed,
            prefix_ids=ids[group],
            kept=None if kept is None else kept[group],
            **settings,
        ).population

    return in_batches(compute, len(prefix), num_runs, rows_per_batch, rows_of_a_sample=num_particles)


class BesideText(NamedTuple):
    """Runs of SMC for B texts: what a perplexity is made of."""

    log_z: Tensor  # (B, M) log Z^ of free runs
    own: Tensor  # (B,) log Z^ of a run conditional on the text
    num_ancestors: Tensor  # (B, M)


def runs_beside(
    joint: WeighedLM,
    prefix: Tensor,  # (B, P)
    continuations: Tensor,  # (B, C)
    *,
    num_runs: int,
    **settings: Any,
) -> BesideText:
    """M free runs of each prefix, and one that keeps its text; `settings` are those of `run_populations`."""
    settings |= {"length": continuations.shape[1]}
    free = run_populations(joint, prefix, num_runs=num_runs, **settings)
    own = run_populations(joint, prefix, num_runs=1, first_run=num_runs, kept=continuations, **settings)
    return BesideText(free.log_z_estimate, own.log_z_estimate[:, 0], free.num_ancestors)


def smc_sample(
    joint: WeighedLM,
    prompt: str | Sequence[int] | Tensor,
    *,
    num_candidates: int,
    num_runs: int,
    max_new_tokens: int,
    seed: int,
    resampling: Resampling,
    stop: Sequence[str],
    stop_at_end: bool | None,
    **decoding: Any,
) -> Generation:
    """A continuation of one prompt by SMC: a particle of all runs, by its weight. The base is a sample of the LM."""
    joint, prefix = joint.stopping(stop_at_end), prompt_tokens(joint.lm, prompt)
    options: dict[str, Any] = {"seed": seed, "prefix_ids": [0], "stop": stop, **decoding}
    runs = particle_runs(
        joint,
        prefix,
        num_particles=num_candidates,
        num_runs=num_runs,
        length=max_new_tokens,
        resampling=resampling,
        **options,
    )
    chosen = importance.resample(runs.log_weights, uniforms(seed, [0], max_new_tokens, 0, 1))
    energy = runs.energy.flatten()  # (M K,)
    generation = chosen_among(joint.lm, runs.samples, energy, runs.log_weights[0], int(chosen), stop)
    base = joint.lm.sample(
        prefix, num_samples=1, max_new_tokens=max_new_tokens, features=joint.energy.features, **options
    )
    base_energy = joint.score(prefix, base.tokens, base.features, base.lengths)[0].double()
    told = differences(joint, prefix.shape[1], max_new_tokens, decoding, runs.samples)
    return replace(
        generation,
        base=candidates_of(joint.lm, base, base_energy, -base_energy, stop)[0],
        num_ancestors=int(runs.population.num_ancestors.sum()),
        warnings=warn_of({UnlikeTrainingWarning: told}),
    )


class EnergiesSeen(NamedTuple):
    """What was known of n texts of each of B prefixes after each token, and their energies at last."""

    partial: Tensor  # (B, n, T) energies so far
    final: Tensor  # (B, n)
    alive: Tensor  # (B, n, T) bool: whether the text goes on
    log_ratio: Tensor  # (B, n, T) log P_LM / q so far, zero without a tilt


def energies_while_written(
    joint: WeighedLM,
    prefix: Tensor,  # (B, P)
    *,
    length: int,
    num_samples: int,
    seed: int,
    prefix_ids: Sequence[int],
    tilt: TokenTilt | None = None,
) -> EnergiesSeen:
    """Samples of the LM, or of what a tilt makes of it, looked at after each token."""
    check_particles(joint, num_samples, 1)

    def compute(group: slice, first: int, count: int) -> EnergiesSeen:
        return _looked_at(joint, prefix[group], length, (first, count), seed, list(prefix_ids)[group], tilt)

    return in_batches(compute, len(prefix), num_samples, ROWS_PER_BATCH)


def _looked_at(
    joint: WeighedLM,
    prefix: Tensor,  # (B, P)
    length: int,
    numbers: tuple[int, int],  # the first sample, and how many
    seed: int,
    prefix_ids: Sequence[int],
    tilt: TokenTilt | None,
) -> EnergiesSeen:
    """All of them as one batch."""
    first_sample, num_samples = numbers
    shape = (len(prefix), num_samples)
    seen = Seen(joint, prefix, shape, tilt)
    samples = weights_of(joint.lm).sample(
        prefix,
        num_samples=num_samples,
        first_sample=first_sample,
        max_new_tokens=length,
        seed=seed,
        prefix_ids=prefix_ids,
        features=joint.energy.features,
        resampler=seen,
    )
    final = joint.score(prefix, samples.tokens, samples.features, samples.lengths).double()  # (B, n)
    assert samples.log_ratio is not None  # zero without a tilt
    for _ in range(length - len(seen.partial)):  # nobody goes on after the last token, or after all have ended
        seen.partial.append(final)
        seen.alive.append(torch.zeros(shape, dtype=torch.bool))
        seen.log_ratio.append(samples.log_ratio)
    partial, alive, log_ratio = (torch.stack(part, -1) for part in (seen.partial, seen.alive, seen.log_ratio))
    return EnergiesSeen(partial, final, alive, log_ratio)


def fit_twist(joint: WeighedLM, prefix: Tensor, **settings: Any) -> Twist:  # (B, P)
    """Least squares of the energies of n samples of each prefix on what was known of them after each token.

    The samples should not be those of the runs that the twist is for: Z^ is unbiased given the twist. `settings` are
    those of `energies_while_written`.
    """
    return smc.fit_twist(*energies_while_written(joint, prefix, **settings))


def _check_tilt(resampling: Resampling, sampling: dict[str, Any]) -> None:
    truncated = [name for name in ("top_k", "top_p") if sampling.get(name) is not None]
    truncated += ["temperature"] if sampling.get("temperature", 1.0) != 1.0 else []
    if resampling.tilt is not None and truncated:
        raise LexergyError(
            f"`{truncated[0]}` is given and tokens are drawn by a tilt of the whole distribution; expected one of the "
            "two; leave the tilt out."
        )


def check_particles(joint: WeighedLM, num_particles: int, num_runs: int) -> None:
    """Refuse what SMC can do nothing for: an energy that is known only at the end, or nobody to resample."""
    if joint.energy.features is None:
        raise LexergyError(
            "`method` is smc and the energy reads whole texts only: nothing is known of a text before its end, and SMC "
            "would be importance sampling; expected an energy on the LM's states (`kind: states`); leave `method` out."
        )
    if num_particles < 2:
        raise LexergyError(f"{num_particles} particles; expected at least 2, of which the better go on; 16 is usual.")
    if num_runs < 1:
        raise LexergyError(f"`num_runs` is {num_runs}; expected at least 1.")
