"""Long texts by sequential Monte Carlo: many are carried on chunk by chunk, and resampled by their chunks' energies.

The target is P(x) = P_LM(x) exp(-sum_j E(chunk_j | the text before it)) / Z over whole texts: every token is judged
once, by an energy that reads what it was trained to read. (Windows that slide would judge each token as often as they
cover it.) It is not the product of joint models that `long_text` draws from, which divides each chunk by a Z of its
own: there a chunk is kept whatever follows, here a beginning is worth what can be written after it.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from lexergy.core.conditions import UnlikeTrainingWarning
from lexergy.core.estimation import importance, smc
from lexergy.core.estimation.smc import Population
from lexergy.core.random import uniforms
from lexergy.errors import LexergyError
from lexergy.models.joint.long_text import Chunk, LongGeneration, beside_the_lm, context_limit, has_stopped
from lexergy.models.joint.sampling import differences, prompt_tokens, text_of, warn_of
from lexergy.models.joint.weights import WeighedLM

BELOW = 0.5  # resampled after a chunk where the effective sample size is less than this share of those that go on


class LongParticles(NamedTuple):
    """K long texts of one prompt and their weights."""

    tokens: Tensor  # (K, J * C), padded after an end
    lengths: Tensor  # (K,)
    energy: Tensor  # (K, J) float64, of each chunk given the text before it; 0 after an end
    population: Population  # (K,)
    log_weights: Tensor  # (j, K), after each of the j chunks that were written


def write_particles(
    joint: WeighedLM,
    prefix: Tensor,  # (1, P)
    *,
    num_chunks: int,
    chunk_tokens: int,
    num_candidates: int,
    context_tokens: int | None = None,
    seed: int = 0,
    stop: Sequence[str] = (),
    below: float = BELOW,
    **decoding: Any,
) -> LongParticles:
    """x_j ~ P_LM of C tokens for each of K texts, weighed by psi_j = exp(-sum_{i<=j} E_i), resampled between chunks.

    `decoding` is what `sample` takes. Texts that have stopped keep their weight, as in `core.estimation.smc`. Any
    energy and any LM will do, since a chunk is whole when its energy is asked for.
    """
    limit = context_limit(joint, num_chunks, chunk_tokens, context_tokens)
    population, alive = Population.start(num_candidates), torch.ones(num_candidates, dtype=torch.bool)
    text = prefix.cpu().expand(num_candidates, -1)  # (K, P + j C)
    lengths = torch.zeros(num_candidates, dtype=torch.long)
    energy = torch.zeros(num_candidates, num_chunks, dtype=torch.double)
    seen = []
    for number in range(num_chunks):
        rows = alive.nonzero().squeeze(-1)  # (k,)
        samples = joint.lm.sample(
            text[rows, -limit:],
            num_samples=1,
            max_new_tokens=chunk_tokens,
            seed=seed,
            prefix_ids=(rows * num_chunks + number).tolist(),  # no two chunks share random numbers
            features=joint.energy.features,
            stop=stop,
            **decoding,
        )
        scores = joint.score(text[rows, -limit:], samples.tokens, samples.features, samples.lengths)  # (k, 1)
        energy[rows, number] = scores[:, 0].double()
        lengths[rows] += samples.lengths[:, 0]
        text = torch.nn.functional.pad(text, (0, chunk_tokens), value=joint.lm.end_token or 0)
        text[rows, -chunk_tokens:] = samples.tokens[:, 0]
        for row in rows.tolist():
            alive[row] = not has_stopped(joint, text[row, prefix.shape[1] :][: lengths[row]], stop)
        population = population.weighed(-energy.sum(-1))
        seen.append(population.log_weights)
        if number == num_chunks - 1 or not bool(alive.any()):
            break
        # The sampler's own numbers are those of steps 0 .. C - 1, and that of the last choice stands at C.
        numbers = uniforms(seed, [number], chunk_tokens + 1, 0, 1)[0, 0]
        population, ancestors = smc.resample(population, numbers, below=below, alive=alive)
        text, lengths, energy = text[ancestors], lengths[ancestors], energy[ancestors]
    return LongParticles(text[:, prefix.shape[1] :], lengths, energy, population, torch.stack(seen))


def write_long_by_smc(
    joint: WeighedLM,
    prompt: str | Sequence[int] | Tensor,
    *,
    stop: Sequence[str],
    stop_at_end: bool | None,
    **settings: Any,
) -> LongGeneration:
    """One of K long texts by its weight, beside one by the LM; `settings` are those of `write_particles`."""
    if settings["num_candidates"] < 2:
        raise LexergyError(
            f"`num_candidates` is {settings['num_candidates']}; expected at least 2 particles, of which the better go "
            "on; 16 is usual."
        )
    joint, prefix = joint.stopping(stop_at_end), prompt_tokens(joint.lm, prompt)  # (1, P)
    particles = write_particles(joint, prefix, stop=stop, **settings)
    numbers = uniforms(settings["seed"], [0], settings["chunk_tokens"], 0, 1)[0]  # (1,)
    chosen = int(importance.resample(particles.population.log_weights, numbers))
    tokens = particles.tokens[chosen, : particles.lengths[chosen]]
    chunks = [
        Chunk(
            text_of(joint.lm, part, stop),
            float(energy),
            float(importance.effective_sample_size(log_weights)),
            float(importance.pareto_k(log_weights)),
        )
        for part, energy, log_weights in zip(
            tokens.split(settings["chunk_tokens"]), particles.energy[chosen], particles.log_weights, strict=False
        )
    ]
    told = warn_of({UnlikeTrainingWarning: differences(joint, prefix.shape[1], settings["chunk_tokens"], settings)})
    return replace(
        beside_the_lm(joint, prefix, tokens, chunks, told, stop, settings),
        num_ancestors=int(particles.population.num_ancestors),
    )
