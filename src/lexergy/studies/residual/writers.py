"""One text of each writer after each held-out prefix: people, the LM, the joint model by several samplers."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import torch
from torch import Tensor

from lexergy.core.estimation import importance
from lexergy.core.random import uniforms
from lexergy.data.windows import Windows
from lexergy.models.causal.batches import joined
from lexergy.models.causal.language_model import LanguageModel
from lexergy.models.causal.lm import CausalLM
from lexergy.models.causal.samples import Samples
from lexergy.models.energies.text import common_length
from lexergy.models.joint.model import ResidualEBM
from lexergy.models.joint.sampling import draw_candidates, pick
from lexergy.models.joint.smc import particle_runs
from lexergy.models.joint.token_by_token import write_tokens
from lexergy.models.joint.weights import ROWS_PER_BATCH
from lexergy.runs.columns import to_column
from lexergy.studies.residual.workspace import Subject

PEOPLE, BASE = "people", "base"
LIKELIEST_TOKENS = 10  # among which the joint model writes token by token, unless all are truncated alike
WRITERS = {
    PEOPLE: "people",
    "frozen": "frozen LM (uncorrected)",
    BASE: "base LM",  # corrected, where the run's LM has local residuals
    "joint": "joint model (importance sampling)",
    "smc": "joint model (SMC)",
    "tokens": "joint model (token by token)",
    "likeliest": "likeliest of the candidates",
    "best": "lowest energy of the candidates",
}


class Written(NamedTuple):
    """One text after each of B prefixes."""

    tokens: Tensor  # (B, C), padded after an end
    lengths: Tensor  # (B,)
    drawn: Tensor  # (B,) tokens that the LM drew for it
    log_prob: Tensor | None = None  # (B,) by the LM, where it was told as the text was drawn


def rows(subject: Subject, ids: range) -> pa.Table:
    """What each writer wrote, what the LM gives to it, and what it cost."""
    lm, windows = subject.joint.lm, subject.windows.select(list(ids))
    prefix_texts = lm.decode(windows.prefixes)
    columns = {"prefix_text": pa.array(prefix_texts)}
    for name, written in write(subject, windows, ids).items():
        whole = torch.cat((windows.prefixes, written.tokens), 1)  # (B, L)
        columns[f"{name}_text"] = pa.array(_texts(lm, whole, windows.prefix_length, written.lengths, prefix_texts))
        log_prob = written.log_prob
        if log_prob is None:
            log_prob = lm.log_prob(whole, prefix_length=windows.prefix_length)
        numbers = written._replace(log_prob=log_prob)._asdict()
        columns |= {f"{name}_{kind}": to_column(values.numpy()) for kind, values in numbers.items()}
    return pa.table(columns)


def write(subject: Subject, windows: Windows, ids: Sequence[int]) -> dict[str, Written]:
    """By writer, in the order of `WRITERS`. All choose from one distribution of the LM, `settings["top_k"]`."""
    joint, people = subject.joint, windows.continuations
    options: dict[str, Any] = {"seed": subject.seed, "top_k": subject.settings["top_k"]}
    count, length = subject.settings["candidates"], windows.continuation_length
    texts = {PEOPLE: Written(people, joint.lm.lengths(people), torch.zeros(len(people), dtype=torch.long))}
    texts |= from_candidates(joint, windows.prefixes, ids, count, length, options)
    if isinstance(joint.lm, CausalLM) and joint.lm.residuals:
        texts["frozen"] = from_lm(joint.lm.corrected([]), windows.prefixes, ids, length, options)
    if joint.energy.features is not None:
        texts["smc"] = from_particles(subject, windows.prefixes, ids, count, length, options)
    if subject.settings["token_by_token"] is not None:
        texts["tokens"] = Written(
            *write_tokens(
                joint,
                windows.prefixes,
                length=length,
                top_k=subject.settings["top_k"] or LIKELIEST_TOKENS,
                num_samples=subject.settings["token_by_token"],
                seed=subject.seed,
                prefix_ids=ids,
            )
        )
    return {name: texts[name] for name in WRITERS if name in texts}


def from_lm(lm: CausalLM, prefix: Tensor, ids: Sequence[int], length: int, options: dict[str, Any]) -> Written:
    """A plain sample of another LM after each prefix (B, P)."""
    samples = lm.sample(prefix, num_samples=1, max_new_tokens=length, prefix_ids=ids, **options)
    lengths = samples.lengths[:, 0]
    return Written(samples.tokens[:, 0], lengths, lengths)


def from_candidates(
    joint: ResidualEBM,
    prefix: Tensor,  # (B, P)
    ids: Sequence[int],
    count: int,
    length: int,
    options: dict[str, Any],
) -> dict[str, Written]:
    """Of the same n candidates: the first, one drawn by the energy (Algorithm 1), the likeliest, the lowest energy."""
    samples, energy, drawn = draw_candidates(
        joint,
        prefix,
        num_candidates=count,
        max_new_tokens=length,
        prefix_ids=ids,
        rows_per_batch=ROWS_PER_BATCH,
        **options,
    )
    first = torch.zeros_like(drawn)
    chosen = {BASE: first, "joint": drawn, "likeliest": samples.log_prob.argmax(1), "best": energy.argmin(1)}
    cost = {BASE: samples.lengths[:, 0]}  # the others look at all of them
    return {
        name: _chosen(samples, place, options, cost.get(name, samples.lengths.sum(1))) for name, place in chosen.items()
    }


def from_particles(
    subject: Subject,
    prefix: Tensor,  # (B, P)
    ids: Sequence[int],
    count: int,
    length: int,
    options: dict[str, Any],
) -> Written:
    """One of n particles of SMC, by their weights; they have the random numbers of the candidates."""
    parts = []
    at_once = max(1, ROWS_PER_BATCH // count)
    for start in range(0, len(prefix), at_once):
        streams = list(ids[start : start + at_once])
        runs = particle_runs(
            subject.joint,
            prefix[start : start + at_once],
            num_particles=count,
            num_runs=1,
            length=length,
            prefix_ids=streams,
            resampling=subject.resampling,
            **options,
        )
        numbers = uniforms(options["seed"], streams, length, 0, 1)  # (b, 1)
        place = importance.resample(runs.log_weights, numbers).squeeze(-1)  # (b,)
        parts.append(_chosen(runs.samples, place, options, runs.samples.lengths.sum(1)))
    return joined(parts, 0)


def _chosen(samples: Samples, place: Tensor, options: dict[str, Any], cost: Tensor) -> Written:  # (B,), (B,)
    """One text of each prefix. Of a truncated LM's the whole one has told no log-probability."""
    log_prob = pick(samples.log_prob, place) if options["top_k"] is None else None
    if log_prob is not None and bool(log_prob.isnan().any()):  # a remote LM tells none
        log_prob = None
    return Written(pick(samples.tokens, place), pick(samples.lengths, place), cost, log_prob)


def _texts(
    lm: LanguageModel,
    whole: Tensor,  # (B, L)
    prefix_length: int,
    lengths: Tensor,  # (B,)
    prefix_texts: Sequence[str],
) -> list[str]:
    """What stands after each prefix. Decoded with it, since some tokenizers drop the blank that a text begins with."""
    texts = []
    for row, length, before in zip(whole, lengths.tolist(), prefix_texts, strict=True):
        tokens = row[: prefix_length + length]
        text = lm.decode(tokens[:-1] if tokens[-1] == lm.end_token else tokens)[0]
        texts.append(text[common_length(before, text) :])
    return texts
