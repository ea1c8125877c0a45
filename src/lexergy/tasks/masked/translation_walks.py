"""Chains over translations, followed sweep by sweep: energies, acceptance and BLEU of every sentence."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from lexergy.core.mcmc.metropolis import ChainState, mask_predict
from lexergy.core.mcmc.sweeps import Sweep
from lexergy.core.text_metrics import metric_named
from lexergy.data.translations import Pair
from lexergy.models.masked.conditional import ConditionalMaskedLM
from lexergy.runs.columns import from_column, to_column
from lexergy.tasks.masked.mcmc import Sampling, walk_chains

NUMBERS = ("local", "raw", "proposed", "accepted", "novel", "bleu")


@dataclass(frozen=True)
class Walk:
    """S sentences, C chains each, at their start and after each of E sweeps."""

    local: np.ndarray  # (S, C, 1 + E), locally normalised energy, whichever energy the chains follow
    raw: np.ndarray  # (S, C, 1 + E)
    proposed: np.ndarray  # (S, C, 1 + E), none at the start
    accepted: np.ndarray  # (S, C, 1 + E)
    novel: np.ndarray  # (S, C, 1 + E)
    bleu: np.ndarray  # (S, C, 1 + E, 10), what is summed over sentences for a corpus's BLEU
    last_texts: list[list[str]]  # S lists of C

    def first(self, sentences: int) -> "Walk":
        """Of the first sentences only."""
        return Walk(**{name: values[:sentences] for name, values in vars(self).items()})


def walk_translations(
    lm: ConditionalMaskedLM, pairs: Sequence[Pair], sampling: Sampling, *, progress: bool
) -> pa.Table:
    """A row per sentence; `read_walk` reads it back."""
    templates = lm.templates([pair.source for pair in pairs])
    return _table(lm, pairs, list(walk_chains(lm, templates, sampling, progress=progress)))


def mask_predict_translations(lm: ConditionalMaskedLM, pairs: Sequence[Pair], iterations: int) -> pa.Table:
    """Mask-Predict's translations in the same form: one chain that stays at its start."""
    tokens = lm.pad(lm.templates([pair.source for pair in pairs]))
    filled = mask_predict(tokens, tokens == lm.mask_token, lm.conditionals, iterations)
    nothing = torch.zeros(len(filled), dtype=torch.long)
    return _table(lm, pairs, [Sweep(ChainState(filled, nothing.double()), nothing, nothing, nothing)])


def read_walk(table: pa.Table) -> Walk:
    numbers = {name: from_column(table.column(name)) for name in NUMBERS}
    return Walk(**numbers, last_texts=table.column("last_texts").to_pylist())


def _table(lm: ConditionalMaskedLM, pairs: Sequence[Pair], sweeps: Sequence[Sweep]) -> pa.Table:
    def by_sentence(per_sweep: Iterable[Tensor]) -> np.ndarray:  # (S C,) each -> (S, C, 1 + E)
        return torch.stack(list(per_sweep), dim=1).view(len(pairs), -1, len(sweeps)).numpy()

    tokens = [sweep.state.tokens for sweep in sweeps]
    texts = np.array([[lm.decode(row) for row in rows] for rows in tokens], dtype=object).T  # (S C, 1 + E)
    texts = texts.reshape(len(pairs), -1, len(sweeps))
    columns = {
        "local": by_sentence(map(lm.local_energy, tokens)),
        "raw": by_sentence(map(lm.raw_energy, tokens)),
        "proposed": by_sentence(sweep.proposed for sweep in sweeps),
        "accepted": by_sentence(sweep.accepted for sweep in sweeps),
        "novel": by_sentence(sweep.novel for sweep in sweeps),
        "bleu": bleu_statistics(texts, [pair.target for pair in pairs]),
    }
    named = {name: to_column(values) for name, values in columns.items()}
    return pa.table({**named, "last_texts": pa.array(texts[:, :, -1].tolist())})


def bleu_statistics(texts: np.ndarray, references: Sequence[str]) -> np.ndarray:  # (S, ...) -> (S, ..., 10)
    """What is to be summed over sentences."""
    statistics = metric_named("bleu").statistics
    summed = [statistics(own.reshape(-1).tolist(), reference) for own, reference in zip(texts, references, strict=True)]
    return torch.stack(summed).view(*texts.shape, -1).numpy()
