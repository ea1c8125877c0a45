"""Negatives: the LM's continuations of training and validation prefixes, in shards that survive a kill."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import torch

from lexergy.data.windows import Windows
from lexergy.models.causal.state_features import StateFeatures
from lexergy.runs.columns import from_column, to_column
from lexergy.runs.shards import ShardStore, num_shards, shard_rows
from lexergy.runs.stages import Facts, Stage, stage_seed
from lexergy.runs.workspace import OpenStage
from lexergy.tasks.residual.context import RunContext
from lexergy.training.objectives.contrastive import ContrastiveData

ROWS_PER_SHARD = 128  # samples: enough for a batch at nearly full speed, seconds of work to lose
SPLITS_WITH_NEGATIVES = ("train", "validation")
NEGATIVES = "negatives"
ROWS, PARTS = "rows", "parts"  # facts where not all windows have negatives: rows of the growing order, shards by folder


def features_key(features: StateFeatures | None) -> dict[str, Any]:
    """Which features are stored with the negatives."""
    return {"layers": None} if features is None else features.key


def build_negatives(context: RunContext, stage: OpenStage) -> Facts:
    """Sample every shard that is not there yet; a shard is a pure function of its number."""
    return draw_negatives(context, range(sum(len(context.windows[split]) for split in SPLITS_WITH_NEGATIVES)), stage)


def build_part(context: RunContext, rows: range, stage: OpenStage) -> Facts:
    """The same for some rows of the growing order."""
    numbers = growing_order(context)[rows.start : rows.stop]
    facts = draw_negatives(context, numbers, stage)
    return {**facts, ROWS: [rows.start, rows.stop], PARTS: {stage.name: facts["shards"]}}


def draw_negatives(context: RunContext, numbers: Sequence[int], stage: OpenStage) -> Facts:
    """Negatives of the windows of these numbers, in this order; a window's own depend on nothing but its number."""
    tokens, per_shard = _windows(context, numbers).tokens, windows_per_shard(context)  # (N, L)
    shards = num_shards(len(numbers), per_shard)

    def sample(shard: int) -> pa.Table:
        rows = shard_rows(shard, len(numbers), per_shard)
        return _sample(context, tokens[rows.start : rows.stop], numbers[rows.start : rows.stop])

    negatives_store(context, stage.folder).fill(
        shards,
        sample,
        NEGATIVES,
        progress=stage.progress,
        tokens_per_row=context.recipe.negatives.per_prefix * context.recipe.windows.continuation,
    )
    return {"shards": shards, "windows": len(numbers)}


def decoding_key(context: RunContext) -> dict[str, Any]:
    """How negatives are drawn; not of how many windows, which is nothing that a window's own depend on."""
    return context.recipe.negatives.model_dump(mode="json", exclude={"budget"})


def _seed(context: RunContext) -> int:
    return stage_seed(context.recipe.seed, NEGATIVES)


def negatives_store(context: RunContext, folder: Path) -> ShardStore:
    """From which LM, how decoded, from which random numbers; the prefix id is the row's `window`."""
    provenance = {
        "lm": context.recipe.lm.origin,
        "lm_hash": context.lm.fingerprint(),
        "decoding": decoding_key(context),
        "seed": _seed(context),
        **features_key(context.features),
    }
    return ShardStore(folder, provenance)


def windows_per_shard(context: RunContext) -> int:
    return max(1, ROWS_PER_SHARD // context.recipe.negatives.per_prefix)


def _sample(context: RunContext, tokens: torch.Tensor, ids: Sequence[int]) -> pa.Table:  # (B, L)
    """Rows `window, tokens (K, C), log_prob (K)`, with states also `features (K, F), human_features (F)`."""
    lengths, recipe = context.recipe.windows, context.recipe.negatives
    lm = context.lm.on_one_runtime(len(tokens) * recipe.per_prefix)  # people's texts have the same prefixes
    samples = lm.sample(
        tokens[:, : lengths.prefix],
        num_samples=recipe.per_prefix,
        max_new_tokens=lengths.continuation,
        temperature=recipe.temperature,
        top_k=recipe.top_k,
        top_p=recipe.top_p,
        seed=_seed(context),
        prefix_ids=ids,
        features=context.features,
    )
    columns = {
        "window": pa.array(ids, pa.int64()),
        "tokens": to_column(samples.tokens.numpy().astype(np.int32)),
        "log_prob": to_column(samples.log_prob.double().numpy()),
    }
    if context.features is not None:
        human = lm.state_features(tokens, prefix_length=lengths.prefix, features=context.features)
        assert samples.features is not None
        columns["features"] = to_column(samples.features.float().numpy())
        columns["human_features"] = to_column(human.float().numpy())
    return pa.table(columns)


def _windows(context: RunContext, numbers: Sequence[int]) -> Windows:
    """Those of these numbers in the whole run: windows of training come first, then those of validation."""
    parts = [context.windows[split] for split in SPLITS_WITH_NEGATIVES]
    together = Windows(
        tokens=torch.cat([part.tokens for part in parts]),
        prefix_length=parts[0].prefix_length,
        document_ids=[document for part in parts for document in part.document_ids],
        starts=[start for part in parts for start in part.starts],
    )
    return together.select(numbers)


def chosen_pairs(context: RunContext, num_pairs: int, wanted: int | None) -> torch.Tensor:  # (M,)
    """A random `wanted` of the pairs; a smaller number's are among those of a larger one, for all energies."""
    if wanted is None:
        return torch.arange(num_pairs)
    generator = torch.Generator().manual_seed(stage_seed(context.recipe.seed, "pairs"))
    return torch.randperm(num_pairs, generator=generator)[:wanted]


def growing_order(context: RunContext) -> list[int]:
    """In which order windows get negatives where not all may: those of validation, and of training at random."""
    train, validation = (len(context.windows[split]) for split in SPLITS_WITH_NEGATIVES)
    return [*range(train, train + validation), *chosen_pairs(context, train, train).tolist()]


def drawn_pairs(context: RunContext, negatives: Stage) -> tuple[Windows, pa.Table]:
    """The windows that a stage drew negatives for, and the negatives, row by row.

    A stage that grew has its shards in the folders of its parts.
    """
    facts = negatives.facts
    if ROWS not in facts:
        return _windows(context, range(facts["windows"])), negatives_store(context, negatives.folder).table(
            facts["shards"]
        )
    stores = {name: negatives_store(context, context.folder / name) for name in facts[PARTS]}
    tables = [store.table(facts[PARTS][name]) for name, store in stores.items()]
    return _windows(context, growing_order(context)[slice(*facts[ROWS])]), pa.concat_tables(tables)


def contrastive_data(
    context: RunContext, negatives: Stage, features: StateFeatures | None
) -> tuple[ContrastiveData, ContrastiveData]:
    """People's and the LM's continuations for training and for validation, with these of the stored features."""
    (train, _), (validation, _) = split_pairs(context, negatives, features)
    return train, validation


def split_pairs(
    context: RunContext, negatives: Stage, features: StateFeatures | None
) -> list[tuple[ContrastiveData, list[str]]]:
    """The same, each with the documents of its pairs."""
    windows, table = drawn_pairs(context, negatives)
    validation = len(context.windows["validation"])
    train = len(windows) - validation
    starts = (validation, 0) if ROWS in negatives.facts else (0, train)
    parts = []
    for start, count in zip(starts, (train, validation), strict=True):
        own = windows.select(range(start, start + count))
        parts.append((contrast(context, own, table.slice(start, count), features), own.document_ids))
    return parts


def contrast(context: RunContext, windows: Windows, table: pa.Table, features: StateFeatures | None) -> ContrastiveData:
    """People's continuations of these windows and the LM's, with these of the stored features."""

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
