import random
import shutil
import signal
import subprocess
import sys

import numpy
import pyarrow
import pytest

from lexergy.errors import LexergyError
from lexergy.runs.shards import ShardStore

PROVENANCE = {"lm": "abc", "seed": 0}


def shard(index, rows=3):
    return pyarrow.table({"shard": [index] * rows, "value": [index * 1000 + row for row in range(rows)]})


def filled(folder, num_shards):
    store = ShardStore(folder, PROVENANCE)
    for index in reversed(range(num_shards)):
        store.write(index, shard(index))
    return store


def test_shards_come_back_in_order_and_only_the_missing_are_asked_for(tmp_path):
    store = ShardStore(tmp_path, PROVENANCE)
    assert store.missing(3) == [0, 1, 2]
    store.write(2, shard(2))
    store.write(0, shard(0))
    assert ShardStore(tmp_path, {"seed": 0, "lm": "abc"}).missing(4) == [1, 3]
    with pytest.raises(LexergyError, match=r"1 of 3 shards are missing.*first \[1\]"):
        store.table(3)
    store.write(1, shard(1))
    assert store.table(3)["value"].to_pylist() == [0, 1, 2, 1000, 1001, 1002, 2000, 2001, 2002]
    assert store.table(2)["shard"].to_pylist() == [0, 0, 0, 1, 1, 1]


def test_more_than_ten_shards_keep_their_order(tmp_path):
    assert filled(tmp_path, 12).table(12)["shard"].to_pylist() == [i for i in range(12) for _ in range(3)]


def test_other_provenance_is_refused_until_the_folder_is_removed(tmp_path):
    folder = tmp_path / "shards"
    filled(folder, 2)
    with pytest.raises(LexergyError, match=r'other settings .*"seed":0.*"seed":1.*remove the folder'):
        ShardStore(folder, {"lm": "abc", "seed": 1})
    shutil.rmtree(folder)
    assert ShardStore(folder, {"lm": "abc", "seed": 1}).missing(2) == [0, 1]


@pytest.mark.parametrize("kept_bytes", [0, 2, 100, -1])
def test_a_truncated_shard_is_missing_and_can_be_written_again(tmp_path, kept_bytes):
    file = filled(tmp_path, 2)._path(1)
    file.write_bytes(file.read_bytes()[:kept_bytes])
    store = ShardStore(tmp_path, PROVENANCE)
    assert store.missing(2) == [1]
    store.write(1, shard(1))
    assert store.table(2)["shard"].to_pylist() == [0, 0, 0, 1, 1, 1]


def test_killed_in_the_middle_of_a_write_the_old_shard_stays_and_no_debris(tmp_path):
    filled(tmp_path, 2)
    script = """
import os, signal, sys
import pyarrow.parquet
from lexergy.runs.shards import ShardStore

def half_a_write(table, path):
    with open(path, "wb") as file:
        file.write(b"PAR1 half")
    os.kill(os.getpid(), signal.SIGKILL)

pyarrow.parquet.write_table = half_a_write
ShardStore(sys.argv[1], {"lm": "abc", "seed": 0}).write(1, pyarrow.table({"shard": [7]}))
"""
    worker = subprocess.run([sys.executable, "-c", script, str(tmp_path)])
    assert worker.returncode == -signal.SIGKILL
    assert len(list(tmp_path.iterdir())) == 3
    assert ShardStore(tmp_path, PROVENANCE).table(2)["shard"].to_pylist() == [0, 0, 0, 1, 1, 1]
    assert len(list(tmp_path.iterdir())) == 2


ROWS = 100_000
WORKER = """
import sys
import numpy, pyarrow
from lexergy.runs.shards import ShardStore

print("ready", flush=True)
store = ShardStore(sys.argv[1], {"lm": "abc", "seed": 0})
for index in store.missing(NUM_SHARDS):
    store.write(index, pyarrow.table({"value": numpy.arange(index * ROWS, (index + 1) * ROWS)}))
"""


def run_worker(folder, num_shards, kill_after=None):
    """Run the worker to its end, or kill -9 it some seconds after it began; its exit status."""
    script = WORKER.replace("NUM_SHARDS", str(num_shards)).replace("ROWS", str(ROWS))
    with subprocess.Popen([sys.executable, "-c", script, str(folder)], stdout=subprocess.PIPE) as worker:
        worker.stdout.readline()
        try:
            return worker.wait(timeout=kill_after)
        except subprocess.TimeoutExpired:
            worker.kill()
            return worker.wait()


def test_killed_at_random_moments_the_result_is_that_of_an_uninterrupted_run(tmp_path):
    num_shards, delays = 15, random.Random(0)
    killed = [run_worker(tmp_path, num_shards, kill_after=delays.uniform(0.01, 0.1)) for _ in range(4)]
    assert -signal.SIGKILL in killed
    assert run_worker(tmp_path, num_shards) == 0
    values = ShardStore(tmp_path, PROVENANCE).table(num_shards)["value"].to_numpy()
    assert numpy.array_equal(values, numpy.arange(num_shards * ROWS))
    assert len(list(tmp_path.iterdir())) == num_shards
