"""The perplexity of joint models, several energies at once on the same samples, streamed and resumable."""

from collections.abc import Iterable, Mapping, Sequence
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import torch
from torch import Tensor

from lexergy.core.estimation.perplexity import PerplexityEstimate, perplexity_from_weights
from lexergy.core.estimation.smc import Resampling
from lexergy.data.windows import Windows
from lexergy.errors import LexergyError
from lexergy.models.causal.language_model import LanguageModel
from lexergy.models.energies import Energy
from lexergy.models.joint.smc import runs_beside
from lexergy.models.joint.weights import ROWS_PER_BATCH, WeighedLM, energy_on, log_weights, score_all
from lexergy.runs.columns import from_column, to_column
from lexergy.runs.records import (
    BASE_COLUMN,
    RunResult,
    ancestors_column,
    human_column,
    own_column,
    weights_column,
)
from lexergy.runs.shards import ShardStore, num_shards, shard_rows
from lexergy.tasks.residual.context import RunContext
from lexergy.tasks.residual.steering import resampling_of


def evaluate(
    lm: LanguageModel,
    energies: Mapping[str, Any],
    windows: Windows,
    num_samples: int,
    seed: int,
    *,
    num_runs: int | None = None,
    resampling: Mapping[str, Resampling] | None = None,
    store: ShardStore | None = None,
    progress: bool = True,
) -> dict[str, PerplexityEstimate]:
    """Each joint model's perplexity, bounded and estimated from the same LM samples.

    Only log-weights are kept, never samples. With a `store`, whose provenance must name LM, energies,
    windows, `num_samples`, `num_runs` and `seed`, a killed evaluation goes on where it was. With `num_runs`, by so many
    runs of SMC of `num_samples` particles each, whose texts are those of one energy: they are drawn for each anew, by
    its own `resampling`.
    """
    settings: dict[str, Any] = {"num_runs": num_runs, "resampling": resampling, "store": store, "progress": progress}
    table = collect_weights(lm, energies, windows, num_samples, seed, **settings)

    def tensor(column: str) -> Tensor:
        return torch.from_numpy(from_column(table.column(column)))

    def runs(name: str) -> dict[str, Any]:
        if num_runs is None:
            return {}
        columns = {"own": tensor(own_column(name)), "num_ancestors": tensor(ancestors_column(name))}  # (N,), (N, n)
        return {"num_particles": num_samples, **columns}

    length = float(lm.lengths(windows.continuations).double().mean())
    return {
        name: perplexity_from_weights(
            tensor(BASE_COLUMN),  # (N,)
            tensor(human_column(name)),  # (N,)
            tensor(weights_column(name)),  # (N, n)
            length,
            seed,
            documents=windows.document_ids,
            **runs(name),
        )
        for name in energies
    }


def evaluate_again(
    result: RunResult,
    names: Sequence[str],
    num_windows: int,
    num_samples: int,
    seed: int,
    *,
    num_runs: int | None = None,
) -> dict[str, PerplexityEstimate]:
    """The perplexity of some of a finished run's joint models on its own test windows, from new samples.

    Fewer windows than the run had are spread evenly over its documents. `num_runs` is that of `evaluate`.
    """
    context = RunContext(result.recipe, result.folder)
    energies = {name: context.energy(name) for name in names}
    windows, resampling = context.some_test_windows(num_windows), None if num_runs is None else steered(context, names)
    return evaluate(context.lm, energies, windows, num_samples, seed, num_runs=num_runs, resampling=resampling)


def steered(context: RunContext, names: Iterable[str]) -> dict[str, Resampling]:
    """By what the runs of each energy are resampled on the run's windows."""
    return {name: resampling_of(context, name, context.recipe.windows.continuation) for name in names}


def collect_weights(
    lm: LanguageModel,
    energies: Mapping[str, Any],
    windows: Windows,
    num_samples: int,
    seed: int,
    *,
    num_runs: int | None = None,
    resampling: Mapping[str, Resampling] | None = None,
    store: ShardStore | None = None,
    progress: bool = True,
) -> pa.Table:
    """One row per window: log p_LM and energies of its own text, and log w_i = -E(x_i) of n LM samples.

    With `num_runs`, log Z^ of so many runs of SMC in place of -E(x_i), beside that of a run that keeps the text.
    """
    if not energies:
        raise LexergyError("no energy was given; expected at least one to evaluate.")
    if store is None:
        with TemporaryDirectory() as folder:
            settings: dict[str, Any] = {"num_runs": num_runs, "resampling": resampling, "progress": progress}
            return collect_weights(lm, energies, windows, num_samples, seed, store=ShardStore(folder, {}), **settings)
    opened = {name: energy_on(lm, energy) for name, energy in energies.items()}
    # A shard is what one batch samples, so that its prefixes are prefilled once.
    per_shard = max(1, ROWS_PER_BATCH // num_samples)

    def compute(shard: int) -> pa.Table:
        rows = shard_rows(shard, len(windows), per_shard)
        if num_runs is None:
            return _weigh(lm, opened, windows, rows, num_samples, seed)
        return _run_beside(lm, opened, windows, rows, num_samples, num_runs, seed, resampling or {})

    shards = num_shards(len(windows), per_shard)
    store.fill(shards, compute, "perplexity", progress=progress)
    return store.table(shards)


@torch.inference_mode()
def _weigh(
    lm: LanguageModel, energies: Mapping[str, Energy], windows: Windows, ids: range, num_samples: int, seed: int
) -> pa.Table:
    lm = lm.on_one_runtime(len(ids) * num_samples)  # people's texts have the same prefixes
    rows, own = windows.select(list(ids)), list(energies.values())
    prefix, length = rows.prefixes, rows.continuation_length  # (B, P)
    weights = log_weights(lm, own, prefix, length=length, num_samples=num_samples, seed=seed, prefix_ids=ids)
    columns = _of_people(lm, energies, rows, ids)
    for name, of_samples in zip(energies, weights, strict=True):
        columns[weights_column(name)] = to_column(of_samples.numpy())  # (B, n)
    return pa.table(columns)


@torch.inference_mode()
def _run_beside(
    lm: LanguageModel,
    energies: Mapping[str, Energy],
    windows: Windows,
    ids: range,
    num_particles: int,
    num_runs: int,
    seed: int,
    resampling: Mapping[str, Resampling],
) -> pa.Table:
    rows = windows.select(list(ids))
    columns = _of_people(lm, energies, rows, ids)
    for name, energy in energies.items():
        log_z, own, ancestors = runs_beside(
            WeighedLM(lm, energy),
            rows.prefixes,
            rows.continuations,
            num_particles=num_particles,
            num_runs=num_runs,
            seed=seed,
            prefix_ids=ids,
            resampling=resampling.get(name, Resampling()),
        )
        columns[weights_column(name)] = to_column(log_z.numpy())  # (B, M)
        columns[own_column(name)] = to_column(own.numpy())  # (B,)
        columns[ancestors_column(name)] = to_column(ancestors.double().numpy())  # (B, M)
    return pa.table(columns)


def _of_people(lm: LanguageModel, energies: Mapping[str, Energy], rows: Windows, ids: range) -> dict[str, pa.Array]:
    """log p_LM and energies of the windows' own texts."""
    found = score_all(lm, list(energies.values()), rows.prefixes, rows.continuations.unsqueeze(1))  # (B, 1) each
    base_log_prob = lm.log_prob(rows.tokens, prefix_length=rows.prefix_length)  # (B,)
    columns = {"window": pa.array(ids, pa.int64()), BASE_COLUMN: to_column(base_log_prob.double().numpy())}
    for name, energy in zip(energies, found, strict=True):
        columns[human_column(name)] = to_column(energy.squeeze(1).double().numpy())
    return columns
