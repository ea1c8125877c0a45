"""Sample from a masked LM: many chains of Metropolis-Hastings per sentence, and whether they have mixed."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, TypeAlias

import psutil
import torch
from torch import Tensor

from lexergy.core.decoding import Decoding
from lexergy.core.mcmc.diagnostics import Mixing, mixing
from lexergy.core.mcmc.metropolis import (
    UNTRUNCATED,
    ChainState,
    Transition,
    degenerate_gibbs_step,
    initial_state,
    mask_predict,
    metropolis_step,
    propose,
)
from lexergy.core.mcmc.sweeps import Schedule, Step, Sweep, run_chains
from lexergy.core.random import uniforms
from lexergy.errors import LexergyError
from lexergy.models.masked.conditional import ConditionalMaskedLM
from lexergy.models.masked.lm import EnergyKind, MaskedLM
from lexergy.progress import progress_bar

START_STEP = 2**62  # address of the random numbers of the start, which no sweep uses
START_SWEEPS = 2  # of a start by degenerate Gibbs sampling
BYTES_PER_LOGIT = 40  # float32 logits, their distribution in float64 and what is made of it on the way
SHARE_OF_MEMORY = 0.8
_STREAMS = 2**32  # random streams that the chains of one sentence may use

SamplerName: TypeAlias = Literal["metropolis", "gibbs"]
StartName: TypeAlias = Literal["sampled", "greedy", "gibbs"]


@dataclass(frozen=True)
class Sampling:
    """How the chains walk; `burn_in` sweeps are left out of all numbers."""

    schedule: Schedule
    chains: int = 8
    energy: EnergyKind = "local"
    sampler: SamplerName = "metropolis"
    decoding: Decoding = UNTRUNCATED
    start: StartName = "sampled"
    burn_in: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        if self.chains < 1:
            raise LexergyError(f"`chains` is {self.chains}; expected at least 1; 4 or more tell whether they mixed.")
        if not 0 <= self.burn_in < self.schedule.sweeps:
            raise LexergyError(
                f"`burn_in` is {self.burn_in} of {self.schedule.sweeps} sweeps; expected fewer than all; "
                "make more sweeps."
            )


@dataclass(frozen=True)
class ChainSample:
    """Where a chain ended, and how it went after the burn-in."""

    text: str
    energy: float
    acceptance: float
    novel: float  # share of proposals that changed the sequence


@dataclass(frozen=True)
class SampledSentence:
    """The chains of one sentence."""

    samples: tuple[ChainSample, ...]
    energies: Tensor  # (C, sweeps), burn-in included
    acceptance: float
    novel: float
    mixing: Mixing  # of the energy after the burn-in


def open_masked_lm(
    model: str, prompts: Sequence[str], sentences: Sequence[str], length: int
) -> tuple[MaskedLM, list[list[int]]]:
    """The model, and the templates whose masks it is to fill: of `sentences` their translations, else of `prompts`
    their masks, else `length` masks."""
    if sentences:
        translator = ConditionalMaskedLM.from_pretrained(model)
        return translator, translator.templates(sentences)
    lm = MaskedLM.from_pretrained(model)
    return lm, [lm.encode(prompt) for prompt in prompts] if prompts else [lm.blank(length)]


def sample_masked_lm(
    lm: MaskedLM, templates: Sequence[Sequence[int]], sampling: Sampling, *, progress: bool = False
) -> list[SampledSentence]:
    """`chains` chains for each template (`MaskedLM.blank`, `MaskedLM.encode`), and where they ended."""
    _, *sweeps = walk_chains(lm, templates, sampling, progress=progress)
    energies = torch.stack([sweep.state.energy for sweep in sweeps], dim=1)  # (C, sweeps)
    kept = sweeps[sampling.burn_in :]
    counts = torch.stack([torch.stack([sweep.proposed, sweep.accepted, sweep.novel]) for sweep in kept]).sum(
        0
    )  # (3, C)
    return [
        _sentence(lm, sweeps[-1].state.tokens[rows], energies[rows], counts[:, rows], sampling.burn_in)
        for rows in torch.arange(len(energies)).split(sampling.chains)
    ]


def walk_chains(
    lm: MaskedLM, templates: Sequence[Sequence[int]], sampling: Sampling, *, progress: bool = False
) -> Iterator[Sweep]:
    """The chains of all templates in one batch, template by template: at their start, then after each sweep.

    Masked tokens are filled in and changed, the others stay: the target is exp(-E(y)) over what may stand at the
    masks. A chain's random numbers depend on (seed, number of its template, number of the chain) alone.
    """
    starts = lm.pad(templates)
    _check(lm, starts, sampling)
    tokens = starts.repeat_interleave(sampling.chains, dim=0)
    chain_ids = [_STREAMS * number + chain for number in range(len(starts)) for chain in range(sampling.chains)]
    free = tokens == lm.mask_token
    energy = lm.energy(sampling.energy)
    state = initial_state(_start(lm, tokens, free, sampling, chain_ids), energy)
    nothing = torch.zeros(len(tokens), dtype=torch.long)
    yield Sweep(state, nothing, nothing, nothing)
    step = _step(lm, sampling)
    with progress_bar("mcmc", sampling.schedule.sweeps, progress) as bar:
        for sweep in run_chains(state, free, sampling.schedule, step, seed=sampling.seed, chain_ids=chain_ids):
            unknown = sweep.state.energy.isnan()
            if unknown.any():
                sweep.state.energy[unknown] = energy(sweep.state.tokens[unknown])
            proposals = int(sweep.proposed.sum())
            bar.advance(
                energy=float(sweep.state.energy.mean()),
                acceptance=int(sweep.accepted.sum()) / proposals,
                novel=int(sweep.novel.sum()) / proposals,
            )
            yield sweep


def _step(lm: MaskedLM, sampling: Sampling) -> Step:
    if sampling.sampler == "gibbs":
        return _gibbs_step(lm, sampling)

    def metropolis(
        state: ChainState, block: Tensor, numbers: Tensor, temperature: float
    ) -> tuple[ChainState, Transition]:
        return metropolis_step(
            state,
            block,
            numbers,
            energy=lm.energy(sampling.energy),
            conditionals=lm.conditionals,
            decoding=sampling.decoding,
            temperature=temperature,
        )

    return metropolis


def _gibbs_step(lm: MaskedLM, sampling: Sampling) -> Step:
    gibbs = partial(degenerate_gibbs_step, conditionals=lm.conditionals, decoding=sampling.decoding)
    return lambda state, block, numbers, temperature: gibbs(state, block, numbers)


def _start(lm: MaskedLM, tokens: Tensor, free: Tensor, sampling: Sampling, chain_ids: Sequence[int]) -> Tensor:
    """All masks filled at once: each by its likeliest token (the thesis's warm start), or each drawn.

    Chains that start apart can tell whether they have mixed; greedy ones of a sentence all start alike. `gibbs` goes on
    from the greedy start for two sweeps that take every proposal, as for Table 6.6 of the thesis.
    """
    if sampling.start == "sampled":
        numbers = uniforms(sampling.seed, chain_ids, START_STEP, 0, tokens.shape[1])
        return propose(tokens, free, numbers, lm.conditionals).tokens
    filled = mask_predict(tokens, free, lm.conditionals, iterations=1)
    if sampling.start == "greedy":
        return filled
    state = ChainState(filled, torch.zeros(len(filled), dtype=torch.double))
    schedule = Schedule(sweeps=START_SWEEPS, order=sampling.schedule.order)
    others = [_STREAMS // 2 + chain for chain in chain_ids]  # random numbers that the walk itself does not use
    *_, last = run_chains(state, free, schedule, _gibbs_step(lm, sampling), seed=sampling.seed, chain_ids=others)
    return last.state.tokens


def _sentence(lm: MaskedLM, tokens: Tensor, energies: Tensor, counts: Tensor, burn_in: int) -> SampledSentence:
    proposed, accepted, novel = counts.double()  # (C,) each
    samples = tuple(
        ChainSample(lm.decode(row), float(energy), float(rate), float(changed))
        for row, energy, rate, changed in zip(
            tokens, energies[:, -1], accepted / proposed, novel / proposed, strict=True
        )
    )
    total = proposed.sum()
    return SampledSentence(
        samples,
        energies,
        float(accepted.sum() / total),
        float(novel.sum() / total),
        mixing(energies[:, burn_in:]),
    )


def _check(lm: MaskedLM, starts: Tensor, sampling: Sampling) -> None:  # (S, L)
    masks = (starts == lm.mask_token).sum(dim=1)
    if int(masks.min()) == 0:
        raise LexergyError(
            f"sentence {int(masks.argmin()) + 1} has no mask; expected at least one token to fill in; "
            'write [MASK] where one is wanted, as in "the [MASK] [MASK] of the union".'
        )
    length, longest = starts.shape[1], getattr(lm.model.config, "max_position_embeddings", None)
    if longest is not None and length > longest:
        raise LexergyError(f"a sentence has {length} tokens; the model reads at most {longest}; shorten it.")
    # The start fills all masks of all chains at once.
    per_chain = int(masks.sum()) * lm.vocab_size * BYTES_PER_LOGIT
    free_bytes = SHARE_OF_MEMORY * psutil.virtual_memory().available
    if sampling.chains * per_chain > free_bytes:
        raise LexergyError(
            f"`chains` is {sampling.chains}: they need about {sampling.chains * per_chain / 1e9:,.1f} GB of memory, of "
            f"which {free_bytes / 1e9:,.1f} GB are free; expected at most {int(free_bytes // per_chain)}; "
            "run fewer at a time, each time with another seed."
        )
