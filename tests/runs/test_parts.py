"""Parts of a run's shards: together they are all of them, to the last bit; what cannot be divided is done once."""

import os
import subprocess
import sys
import time

import pyarrow
import pytest

from lexergy.errors import LexergyError
from lexergy.runs.parts import Part, PartDone, doing_part, read_part
from lexergy.runs.workspace import open_workspace

NUM_SHARDS = 7


def shard(index):
    return pyarrow.table({"value": [index * 1000 + row for row in range(3)]})


def build_all(folder, value=0, compute=shard):
    """A stage that cannot be divided, then one of shards."""

    def train(stage):
        with open(folder / "trained.txt", "a") as file:
            file.write("x")
        return {}

    def fill(stage):
        stage.store("rows").fill(NUM_SHARDS, compute, "rows", progress=False)
        return {}

    with open_workspace(folder, seed=0, progress=False) as workspace:
        trained = workspace.stage("trained", {"value": value}, [], train)
        return workspace.stage("rows", {}, [trained], fill)


def do_part(text, folder, **settings):
    with doing_part(read_part(text)), pytest.raises(PartDone) as done:
        build_all(folder, **settings)
    return str(done.value)


def contents(folder):
    return {path.name: path.read_bytes() for path in sorted((folder / "rows" / "rows").iterdir())}


@pytest.fixture
def whole(tmp_path):
    build_all(tmp_path / "whole")
    return contents(tmp_path / "whole")


@pytest.mark.parametrize("of", [1, 2, 3, 10])
def test_each_shard_is_in_one_part_whichever_are_missing(of):
    shares = [Part(number, of).share(range(NUM_SHARDS)) for number in range(1, of + 1)]
    assert sorted(index for share in shares for index in share) == list(range(NUM_SHARDS))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1
    for number, share in enumerate(shares, start=1):
        assert Part(number, of).share([4, 5]) == [index for index in (4, 5) if index in share]


@pytest.mark.parametrize("text", ["", "1", "0/4", "5/4", "1/0", "-1/4", "1/4/4", "a/b", "1.0/2", "1/99999999"])
def test_no_such_part(text):
    with pytest.raises(LexergyError, match=r"`--part` is .*expected"):
        read_part(text)


def test_the_parts_and_then_the_rest_are_the_whole(tmp_path, whole):
    folder = tmp_path / "run"
    assert do_part("2/3", folder) == (
        "rows: part 2/3 done: 2 of 7 shards; 5 are missing still; run without --part when all parts are done"
    )
    assert list(contents(folder)) == ["shard-000001.parquet", "shard-000004.parquet"]
    assert "2 of 7 shards; 5 are missing" in do_part("2/3", folder)
    assert "3 of 7 shards; 2 are missing" in do_part("1/3", folder)
    build_all(folder)
    assert contents(folder) == whole
    assert (folder / "trained.txt").read_text() == "x"
    assert list(folder.glob(".part-*")) == []


def test_the_last_part_says_that_all_are_there_and_one_more_goes_on(tmp_path, whole):
    do_part("1/2", tmp_path / "run")
    assert "3 of 7 shards; all are there" in do_part("2/2", tmp_path / "run")
    with doing_part(Part(1, 2)):
        assert build_all(tmp_path / "run").facts == {}
    assert contents(tmp_path / "run") == whole


SCRIPT = """
import sys, time
from pathlib import Path

from test_parts import build_all, shard
from lexergy.errors import LexergyError
from lexergy.runs.parts import PartDone, doing_part, read_part

text, folder = sys.argv[1], Path(sys.argv[2])

def compute(index):
    (folder / f"began-{text[0]}").touch()
    while not (folder / "go").exists():
        time.sleep(0.01)
    return shard(index)

try:
    with doing_part(read_part(text)):
        build_all(folder, compute=compute)
except PartDone as done:
    print(done)
"""


@pytest.fixture
def start(tmp_path):
    started = []

    def begin(text):
        environment = os.environ | {"PYTHONPATH": os.pathsep.join([os.path.dirname(__file__), *sys.path])}
        command = [sys.executable, "-c", SCRIPT, text, str(tmp_path / "run")]
        started.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment))
        return started[-1]

    yield begin
    for process in started:
        process.kill()
        process.communicate()


def wait_for(*paths):
    end = time.monotonic() + 60
    while not all(path.exists() for path in paths):
        assert time.monotonic() < end
        time.sleep(0.01)


def test_parts_work_at_once_and_nobody_else_meanwhile(tmp_path, whole, start):
    folder = tmp_path / "run"
    processes = [start("1/2"), start("2/2")]
    wait_for(folder / "began-1", folder / "began-2")  # neither waits for the other
    with pytest.raises(LexergyError, match=r"2 of the parts of the run .* are at work"):
        build_all(folder)
    with pytest.raises(LexergyError, match="another process does part 1/2"), doing_part(Part(1, 2)):
        build_all(folder)
    with pytest.raises(LexergyError, match="with other settings"), doing_part(Part(1, 3)):
        build_all(folder, value=1)
    half = folder / "rows" / "rows" / ".shard-000000.parquet.999999999-00000000-00000000.partial"  # of another machine
    half.touch()
    assert "part 3/3 done" in do_part("3/3", folder)
    assert half.exists()
    (folder / "go").touch()
    said = [process.communicate(timeout=60)[0] for process in processes]
    assert ["part 1/2 done: 4 of 7" in said[0], "part 2/2 done: 3 of 7" in said[1]] == [True, True]
    build_all(folder)
    assert contents(folder) == whole
    assert (folder / "trained.txt").read_text() == "x"


def test_a_killed_part_holds_nothing_up(tmp_path, whole, start):
    killed = start("1/2")
    wait_for(tmp_path / "run" / "began-1")
    killed.kill()
    killed.wait()
    do_part("2/2", tmp_path / "run")
    build_all(tmp_path / "run")
    assert contents(tmp_path / "run") == whole


def test_parts_are_not_for_processes_that_train_together(tmp_path, monkeypatch):
    monkeypatch.setenv("RANK", "0")
    with pytest.raises(LexergyError, match="without `accelerate launch`"), doing_part(Part(1, 2)):
        build_all(tmp_path)
