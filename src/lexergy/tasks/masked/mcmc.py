"""Sample from a masked LM: many chains of Metropolis-Hastings per sentence, and whether they have mixed."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
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
    initial_state,
    metropolis_step,
)
from lexergy.core.mcmc.sweeps import Schedule, Step, Sweep, run_chains
from lexergy.errors import LexergyError
from lexergy.models.masked.conditional import ConditionalMaskedLM
from lexergy.models.masked.lm import EnergyKind, MaskedLM
from lexergy.progress import progress_bar
from lexergy.tasks.masked.starts import STREAMS, StartName, gibbs_step, start_chains

BYTES_PER_LOGIT = 40  # float32 logits, their distribution in float64 and what is made of it on the way
SHARE_OF_MEMORY = 0.8

SamplerName: TypeAlias = Literal["metropolis", "gibbs"]


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
    their masks, else `length` masks. It remembers what it has read."""
    if sentences:
        translator = ConditionalMaskedLM.from_pretrained(model)
        translator.remember_energies()
        return translator, translator.templates(sentences)
    lm = MaskedLM.from_pretrained(model)
    lm.remember_energies()
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
    lm: MaskedLM,
    templates: Sequence[Sequence[int]],
    sampling: Sampling,
    *,
    numbers: Sequence[int] | None = None,
    progress: bool = False,
) -> Iterator[Sweep]:
    """The chains of all templates in one batch, template by template: at their start, then after each sweep.

    Masked tokens are filled in and changed, the others stay: the target is exp(-E(y)) over what may stand at the
    masks. A chain's random numbers depend on (seed, number of its template, number of the chain) alone; `numbers` are
    those of the templates, 0, 1, ... where they are not told.
    """
    starts = lm.pad(templates)
    _check(lm, starts, sampling)
    tokens = starts.repeat_interleave(sampling.chains, dim=0)
    told = range(len(starts)) if numbers is None else numbers
    chain_ids = [STREAMS * number + chain for number in told for chain in range(sampling.chains)]
    free = tokens == lm.mask_token
    energy = lm.energy(sampling.energy)
    filled = start_chains(
        *(lm, tokens, free, sampling.start, sampling.decoding, sampling.schedule.order),
        seed=sampling.seed,
        chain_ids=chain_ids,
    )
    state = initial_state(filled, energy)
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
        return gibbs_step(lm, sampling.decoding)

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
