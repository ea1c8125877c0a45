"""Rows of any number, a shard at a time: first they are kept, then something is computed from each shard.

    texts = stage_of_rows(workspace, "texts", {"content": content_hash(file)}, lambda: tables_of(file))
    scores = stage_from_rows(workspace, "scores", {"model": hash}, texts, compute)
    for texts_of_shard, scores_of_shard in shards_of(texts, scores): ...

No more than a few shards are in memory, and who computes them needs to see none of the files.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

import pyarrow

from lexergy.errors import LexergyError
from lexergy.runs.engines import Compute
from lexergy.runs.shards import ShardStore
from lexergy.runs.stages import Facts, Stage
from lexergy.runs.workspace import OpenStage, Workspace, stage_store

ROWS = "rows"


def stage_of_rows(
    workspace: Workspace, name: str, config: dict[str, Any], tables: Callable[[], Iterable[pyarrow.Table]]
) -> Stage:
    """A stage that keeps what `tables` gives, in its order, each table a shard."""

    def build(stage: OpenStage) -> Facts:
        store, shards, rows = stage.store(ROWS), 0, 0
        for table in tables():
            store.write(shards, table)
            shards, rows = shards + 1, rows + len(table)
        return {"shards": shards, "rows": rows}

    return workspace.stage(name, config, [], build)


def stage_from_rows(workspace: Workspace, name: str, config: dict[str, Any], rows: Stage, compute: Compute) -> Stage:
    """A stage that computes a shard from each shard of another's rows, on the engine in use."""

    def build(stage: OpenStage) -> Facts:
        read = partial(_shard, stage_store(rows, ROWS))
        stage.store(ROWS).fill(rows.facts["shards"], compute, name, read=read, progress=stage.progress)
        return rows.facts

    return workspace.stage(name, config, [rows], build)


def shards_of(*stages: Stage) -> Iterator[tuple[pyarrow.Table, ...]]:
    """The shards of stages that have the same rows, side by side and in order."""
    stores = [stage_store(stage, ROWS) for stage in stages]
    for index in range(stages[0].facts["shards"]):
        yield tuple(_shard(store, index) for store in stores)


def _shard(store: ShardStore, index: int) -> pyarrow.Table:
    table = store.read(index)
    if table is None:
        raise LexergyError(f"shard {index} in {store.folder} is damaged; remove that folder and start again.")
    return table
