"""Negatives: the LM's continuations of training and validation prefixes, in shards that survive a kill."""

from typing import Any

import numpy as np
import pyarrow as pa
import torch

from lexergy.data.windows import Windows
from lexergy.models.causal.state_features import StateFeatures
from lexergy.runs.columns import from_column, to_column
from lexergy.runs.shards import ShardStore, num_shards, shard_rows
from lexergy.runs.stages import Facts, Stage
from lexergy.runs.workspace import OpenStage
from lexergy.tasks.residual.context import RunContext
from lexergy.training.objectives.contrastive import ContrastiveData

ROWS_PER_SHARD = 128  # samples: enough for a batch at nearly full speed, seconds of work to lose
SPLITS_WITH_NEGATIVES = ("train", "validation")


def features_key(features: StateFeatures | None) -> dict[str, Any]:
    """Which features are stored with the negatives."""
    return {"layers": None} if features is None else features.key


def build_negatives(context: RunContext, stage: OpenStage) -> Facts:
    """Sample every shard that is not there yet; a shard is a pure function of its number."""
    windows, per_shard = _window_tokens(context), _windows_per_shard(context)
    shards = num_shards(len(windows), per_shard)
    _store(context, stage).fill(
        shards,
        lambda shard: _sample(context, windows, shard_rows(shard, len(windows), per_shard), stage.seed),
        "negatives",
        progress=stage.progress,
        tokens_per_row=context.recipe.negatives.per_prefix * context.recipe.windows.continuation,
    )
    return {"shards": shards, "windows": len(windows)}


def _store(context: RunContext, stage: Stage | OpenStage) -> ShardStore:
    """From which LM, how decoded, from which random numbers; the prefix id is the row's `window`."""
    provenance = {
        "lm": context.recipe.lm.origin,
        "lm_hash": context.lm.fingerprint(),
        "decoding": context.recipe.negatives.model_dump(mode="json"),
        "seed": stage.seed,
        **features_key(context.features),
    }
    return ShardStore(stage.folder, provenance)


def _windows_per_shard(context: RunContext) -> int:
    return max(1, ROWS_PER_SHARD // context.recipe.negatives.per_prefix)


def _sample(context: RunContext, windows: torch.Tensor, ids: range, seed: int) -> pa.Table:
    """Rows `window, tokens (K, C), log_prob (K)`, with states also `features (K, F), human_features (F)`."""
    tokens = windows[ids.start : ids.stop]  # (B, L)
    lengths, recipe = context.recipe.windows, context.recipe.negatives
    samples = context.lm.sample(
        tokens[:, : lengths.prefix],
        num_samples=recipe.per_prefix,
        max_new_tokens=lengths.continuation,
        temperature=recipe.temperature,
        top_k=recipe.top_k,
        top_p=recipe.top_p,
        seed=seed,
        prefix_ids=ids,
        features=context.features,
    )
    columns = {
        "window": pa.array(ids, pa.int64()),
        "tokens": to_column(samples.tokens.numpy().astype(np.int32)),
        "log_prob": to_column(samples.log_prob.double().numpy()),
    }
    if context.features is not None:
        human = context.lm.state_features(tokens, prefix_length=lengths.prefix, features=context.features)
        assert samples.features is not None
        columns["features"] = to_column(samples.features.float().numpy())
        columns["human_features"] = to_column(human.float().numpy())
    return pa.table(columns)


def _window_tokens(context: RunContext) -> torch.Tensor:
    """Windows that get negatives, (N, L); the row is the window's number in the whole run."""
    return torch.cat([context.windows[split].tokens for split in SPLITS_WITH_NEGATIVES])


def contrastive_data(
    context: RunContext, negatives: Stage, features: StateFeatures | None
) -> tuple[ContrastiveData, ContrastiveData]:
    """People's and the LM's continuations for training and for validation, with these of the stored features."""
    table = _store(context, negatives).table(negatives.facts["shards"])
    first, parts = 0, []
    for split in SPLITS_WITH_NEGATIVES:
        windows = context.windows[split]
        parts.append(_contrast(context, windows, table.slice(first, len(windows)), features))
        first += len(windows)
    return parts[0], parts[1]


def _contrast(
    context: RunContext, windows: Windows, table: pa.Table, features: StateFeatures | None
) -> ContrastiveData:
    def tensor(name: str) -> torch.Tensor:
        return torch.from_numpy(from_column(table.column(name)))

    def picked(name: str) -> torch.Tensor | None:  # (..., F)
        if features is None or context.features is None:
            return None
        return features.pick(tensor(name), context.features)

    return ContrastiveData(
        prefixes=windows.prefixes,
        continuations=windows.continuations,
        negatives=tensor("tokens").long(),
        features=picked("human_features"),
        negative_features=picked("features"),
        end_token=context.end_token,
    )
