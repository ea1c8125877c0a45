"""Chains over translations, followed sweep by sweep: energies, acceptance and BLEU of every sentence."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from lexergy.core.mcmc.descent import descend
from lexergy.core.mcmc.metropolis import ChainState, mask_predict
from lexergy.core.mcmc.sweeps import Sweep
from lexergy.core.text_measures.text_metrics import metric_named
from lexergy.data.translation.pairs import Pair
from lexergy.models.masked.conditional import ConditionalMaskedLM
from lexergy.runs.columns import from_column, to_column
from lexergy.tasks.masked.mcmc import Sampling, walk_chains

NUMBERS = ("local", "raw", "proposed", "accepted", "novel", "bleu", "proven")
REPLACEMENTS = 64  # of a token, that a descent tries at most


@dataclass(frozen=True)
class Walk:
    """S sentences, C chains each, at their start and after each of E sweeps; a descent to a mode is one more."""

    local: np.ndarray  # (S, C, 1 + E), locally normalised energy, whichever energy the chains follow
    raw: np.ndarray  # (S, C, 1 + E)
    proposed: np.ndarray  # (S, C, 1 + E), none at the start
    accepted: np.ndarray  # (S, C, 1 + E)
    novel: np.ndarray  # (S, C, 1 + E)
    bleu: np.ndarray  # (S, C, 1 + E, 10), what is summed over sentences for a corpus's BLEU
    proven: np.ndarray  # (S, C), 1 where the end is a local minimum of the local energy for certain
    last_texts: list[list[str]]  # S lists of C

    def first(self, sentences: int) -> "Walk":
        """Of the first sentences only."""
        return Walk(**{name: values[:sentences] for name, values in vars(self).items()})


@dataclass(frozen=True)
class Translating:
    """Which sentences a sampler translates, and whether its chains go down to a mode at the end."""

    sampling: Sampling
    sentences: int
    descend: bool = False


class Task(NamedTuple):
    """A sentence with its place in the test set."""

    number: int
    pair: Pair
    template: list[int]


def tasks_by_length(lm: ConditionalMaskedLM, pairs: Sequence[Pair]) -> list[Task]:
    """Sentences of one length stand together: a batch of them has no padding."""
    templates = lm.templates([pair.source for pair in pairs])
    tasks = [Task(number, *both) for number, both in enumerate(zip(pairs, templates, strict=True))]
    return sorted(tasks, key=lambda task: task.template.count(lm.mask_token))


def walk_translations(lm: ConditionalMaskedLM, tasks: Sequence[Task], translating: Translating) -> pa.Table:
    """A row per sentence, in the order of the tasks; `read_walk` reads them back."""
    sampling = translating.sampling
    templates, numbers = [task.template for task in tasks], [task.number for task in tasks]
    sweeps = list(walk_chains(lm, templates, sampling, numbers=numbers))
    proven = torch.zeros(len(sweeps[-1].state.tokens), dtype=torch.bool)
    if translating.descend:
        free = (lm.pad(templates) == lm.mask_token).repeat_interleave(sampling.chains, dim=0)
        descent = descend(
            sweeps[-1].state.tokens,
            free,
            energy=lm.energy(sampling.energy),
            local_energy=lm.local_energy,
            conditionals=lm.conditionals,
            most=REPLACEMENTS,
        )
        sweeps.append(_nothing_proposed(ChainState(descent.tokens, descent.energy)))
        proven = descent.proven & (sampling.energy == "local")
    return _table(lm, tasks, sweeps, proven)


def mask_predict_translations(lm: ConditionalMaskedLM, tasks: Sequence[Task], iterations: int) -> pa.Table:
    """Mask-Predict's translations in the same form: one chain that stays at its start."""
    tokens = lm.pad([task.template for task in tasks])
    filled = mask_predict(tokens, tokens == lm.mask_token, lm.conditionals, iterations)
    energy = torch.zeros(len(filled), dtype=torch.double)
    return _table(lm, tasks, [_nothing_proposed(ChainState(filled, energy))], energy.bool())


def read_walk(table: pa.Table) -> Walk:
    """In the order of the test set."""
    table = table.sort_by("number")
    numbers = {name: from_column(table.column(name)) for name in NUMBERS}
    return Walk(**numbers, last_texts=table.column("last_texts").to_pylist())


def _nothing_proposed(state: ChainState) -> Sweep:
    nothing = torch.zeros(len(state.tokens), dtype=torch.long)
    return Sweep(state, nothing, nothing, nothing)


def _table(lm: ConditionalMaskedLM, tasks: Sequence[Task], sweeps: Sequence[Sweep], proven: Tensor) -> pa.Table:
    def by_sentence(per_sweep: Iterable[Tensor]) -> np.ndarray:  # (S C,) each -> (S, C, 1 + E)
        return torch.stack(list(per_sweep), dim=1).view(len(tasks), -1, len(sweeps)).numpy()

    tokens = [sweep.state.tokens for sweep in sweeps]
    texts = np.array([[lm.decode(row) for row in rows] for rows in tokens], dtype=object).T  # (S C, 1 + E)
    texts = texts.reshape(len(tasks), -1, len(sweeps))
    columns = {
        "local": by_sentence(map(lm.local_energy, tokens)),
        "raw": by_sentence(map(lm.raw_energy, tokens)),
        "proposed": by_sentence(sweep.proposed for sweep in sweeps),
        "accepted": by_sentence(sweep.accepted for sweep in sweeps),
        "novel": by_sentence(sweep.novel for sweep in sweeps),
        "bleu": bleu_statistics(texts, [task.pair.target for task in tasks]),
        "proven": proven.long().view(len(tasks), -1).numpy(),
    }
    named = {name: to_column(values) for name, values in columns.items()}
    numbers = pa.array([task.number for task in tasks])
    return pa.table({"number": numbers, **named, "last_texts": pa.array(texts[:, :, -1].tolist())})


def bleu_statistics(texts: np.ndarray, references: Sequence[str]) -> np.ndarray:  # (S, ...) -> (S, ..., 10)
    """What is to be summed over sentences."""
    statistics = metric_named("bleu").statistics
    summed = [statistics(own.reshape(-1).tolist(), reference) for own, reference in zip(texts, references, strict=True)]
    return torch.stack(summed).view(*texts.shape, -1).numpy()
