"""Rows in shards: in their order, computed from what lies here, each once."""

import pyarrow
import pytest

from lexergy.errors import LexergyError
from lexergy.runs.engines import using_engine
from lexergy.runs.rows import shards_of, stage_from_rows, stage_of_rows
from lexergy.runs.workspace import open_workspace


def tables():
    for first in range(0, 10, 4):
        yield pyarrow.table({"value": list(range(first, min(10, first + 4)))})


class Backwards:
    """The last shard first; remembers what was read for whom."""

    workers = None

    def __init__(self):
        self.read = []

    def tables(self, shards, compute, read):
        for index in reversed(shards):
            self.read.append((index, read(index).column("value").to_pylist()))
            yield index, compute(read(index))


def squares(table):
    return pyarrow.table({"square": [value**2 for value in table.column("value").to_pylist()]})


def computed(folder, content=0, compute=squares):
    with open_workspace(folder, seed=0, progress=False) as workspace:
        rows = stage_of_rows(workspace, "rows", {"content": content}, tables)
        results = stage_from_rows(workspace, "squares", {}, rows, compute)
        return [
            pair
            for values, own in shards_of(rows, results)
            for pair in zip(values.column("value").to_pylist(), own.column("square").to_pylist(), strict=True)
        ]


def test_results_stand_beside_their_rows_in_order(tmp_path):
    engine = Backwards()
    with using_engine(engine):
        assert computed(tmp_path) == [(value, value**2) for value in range(10)]
    assert engine.read == [(2, [8, 9]), (1, [4, 5, 6, 7]), (0, [0, 1, 2, 3])]


def test_what_is_there_is_not_computed_again(tmp_path):
    calls = []

    def dies_once(table):
        calls.append(table.column("value")[0].as_py())
        if calls == [0, 4]:
            raise KeyboardInterrupt
        return squares(table)

    with pytest.raises(KeyboardInterrupt):
        computed(tmp_path, compute=dies_once)
    assert computed(tmp_path, compute=dies_once) == [(value, value**2) for value in range(10)]
    assert calls == [0, 4, 4, 8]
    computed(tmp_path, compute=dies_once)
    assert len(calls) == 4
    computed(tmp_path, content=1, compute=dies_once)
    assert len(calls) == 7


def test_a_damaged_shard_is_named(tmp_path):
    with open_workspace(tmp_path, seed=0, progress=False) as workspace:
        rows = stage_of_rows(workspace, "rows", {}, tables)
        (rows.folder / "rows" / "shard-000001.parquet").write_bytes(b"x")
        with pytest.raises(LexergyError, match=r"shard 1 in .*rows is damaged"):
            list(shards_of(rows))
