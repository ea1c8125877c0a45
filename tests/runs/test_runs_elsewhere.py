"""A run at an address: the same shards as in a folder, whoever writes them and whatever dies on the way."""

import os
import signal
import subprocess
import sys
import time

import pyarrow.parquet
import pytest
from fsspec.core import url_to_fs

from lexergy.errors import LexergyError
from lexergy.runs import processes
from lexergy.runs.parts import PartDone, doing_part, read_part
from lexergy.runs.stages import MANIFEST, PARTIAL
from lexergy.runs.workspace import open_workspace
from lexergy.storage import Mirror, mirrored
from toys.places import another_machine

NUM_SHARDS = 7
SCRIPT = """
import os, sys, time
import pyarrow
from lexergy.runs.workspace import open_workspace

def shard(index):
    time.sleep(0.05)
    return pyarrow.table({"value": [index * 1000 + row for row in range(3)]})

def fill(stage):
    stage.store("rows").fill(int(sys.argv[2]), shard, "rows", progress=False)
    (stage.folder / "by_other_means.txt").write_text("written")
    return {}

with open_workspace(sys.argv[1], seed=0, progress=False) as workspace:
    print("open", flush=True)
    workspace.stage("rows", {}, [], fill)
"""
HALF_UPLOADED = """
import os, signal, sys
import numpy, pyarrow, s3fs.core
from s3fs import S3FileSystem
from lexergy.runs.workspace import open_workspace

s3fs.core.calculate_chunksize = lambda size, chunksize=None: 5 * 2**20  # what S3 takes for a piece, at least
asked, call = [], S3FileSystem._call_s3

async def dying(self, method, *arguments, **options):
    asked.append(method)
    if method == "complete_multipart_upload":
        print(" ".join(asked), flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    return await call(self, method, *arguments, **options)

S3FileSystem._call_s3 = dying

def fill(stage):
    noise = numpy.random.default_rng(0).integers(0, 2**60, 1_600_000)
    stage.store("rows").fill(1, lambda index: pyarrow.table({"value": noise}), "rows", progress=False)
    return {}

with open_workspace(sys.argv[1], seed=0, progress=False) as workspace:
    workspace.stage("rows", {}, [], fill)
"""


def shard(index):
    return pyarrow.table({"value": [index * 1000 + row for row in range(3)]})


def build(place, value=0, compute=shard, num_shards=NUM_SHARDS):
    def fill(stage):
        stage.store("rows").fill(num_shards, compute, "rows", progress=False)
        (stage.folder / "by_other_means.txt").write_text("written")
        return {}

    with open_workspace(place, seed=0, progress=False) as workspace:
        return workspace.stage("rows", {"value": value} if value else {}, [], fill)


def at(place):
    """What is there by name, but for locks and times."""
    filesystem, root = url_to_fs(place)
    filesystem.invalidate_cache()
    contents = {path.removeprefix(root).lstrip("/"): filesystem.cat_file(path) for path in filesystem.find(root)}
    return {name: content for name, content in contents.items() if not name.startswith(".locks/")}


def data(contents):
    return {name: content for name, content in contents.items() if not name.endswith((MANIFEST, PARTIAL))}


@pytest.fixture
def whole(tmp_path):
    folder = tmp_path / "whole"
    build(folder)
    names = (path for path in folder.rglob("*") if path.is_file() and path.name != ".lock")
    return data({path.relative_to(folder).as_posix(): path.read_bytes() for path in names})


def test_a_run_at_an_address_is_a_run_in_a_folder(place, whole, monkeypatch, tmp_path):
    build(place)
    assert data(at(place)) == whole
    assert f"rows/{MANIFEST}" in at(place)
    assert f"rows/{PARTIAL}" not in at(place)
    another_machine(monkeypatch, tmp_path)
    stage = build(place, compute=None)  # finished: nothing is computed
    assert data(at(place)) == whole
    assert (stage.folder / "by_other_means.txt").read_text() == "written"


def test_another_machine_goes_on_where_one_stopped(place, whole, monkeypatch, tmp_path):
    def stop(index):
        if index == 3:
            raise KeyboardInterrupt
        return shard(index)

    with pytest.raises(KeyboardInterrupt):
        build(place, compute=stop)
    assert f"rows/{MANIFEST}" not in at(place)
    computed = []
    another_machine(monkeypatch, tmp_path)
    build(place, compute=lambda index: computed.append(index) or shard(index))
    assert computed == [3, 4, 5, 6]
    assert data(at(place)) == whole


def test_parts_on_machines_that_share_no_folder(place, whole, monkeypatch, tmp_path):
    computed = []
    for text in ("1/2", "2/2"):
        cache = another_machine(monkeypatch, tmp_path)
        with doing_part(read_part(text)), pytest.raises(PartDone) as done:
            build(place, compute=lambda index: computed.append(index) or shard(index))
        # A part has fetched nobody else's shards.
        assert len(list(cache.rglob("shard-*.parquet"))) == (4 if text == "1/2" else 3)
    assert "all are there" in str(done.value)
    assert sorted(computed) == list(range(NUM_SHARDS))
    another_machine(monkeypatch, tmp_path)
    build(place, compute=None)
    assert data(at(place)) == whole


def test_other_settings_clear_the_address_and_what_names_the_work_goes_last(place, monkeypatch):
    build(place)
    removed, remove_all = [], Mirror.remove_all

    def watched(self, names):
        removed.extend(names := list(names))
        remove_all(self, names)

    monkeypatch.setattr(Mirror, "remove_all", watched)
    build(place, value=1, num_shards=2)
    cleared = [name.rpartition("/")[2] for name in removed]
    assert cleared.index(MANIFEST) > max(cleared.index(f"shard-{index:06d}.parquet") for index in range(NUM_SHARDS))
    assert [name for name in data(at(place)) if "shard" in name] == [
        f"rows/rows/shard-{index:06d}.parquet" for index in range(2)
    ]


def test_one_process_writes_a_run(place):
    with (
        open_workspace(place, seed=0, progress=False),
        pytest.raises(LexergyError, match=r"another process is writing the run .*://"),
    ):
        build(place)
    build(place)


def test_what_a_killed_process_left_unpublished_is_not_taken_for_its_work(place, whole):
    build(place)
    leftover = mirrored(place) / "rows" / "leftover.txt"
    leftover.write_text("of other settings")
    with open_workspace(place, seed=0, progress=False):
        assert not leftover.exists()
    assert data(at(place)) == whole


def test_a_process_of_another_machine_waits_for_what_the_first_one_writes(place, monkeypatch, tmp_path):
    monkeypatch.setattr(processes, "POLL_SECONDS_ELSEWHERE", 0.05)
    build(place)
    another_machine(monkeypatch, tmp_path)
    monkeypatch.setenv("RANK", "1")
    looked = []
    path = mirrored(place) / "rows" / MANIFEST
    processes.wait_until(lambda: len(looked.append(1) or looked) > 100 or path.is_file(), path)
    assert path.is_file()
    assert build(place, compute=None).name == "rows"


def start(script, place, cache):
    environment = {**os.environ, "LEXERGY_CACHE": str(cache), "TRANSFORMERS_VERBOSITY": "error"}
    return subprocess.Popen(
        [sys.executable, "-c", script, place, str(NUM_SHARDS)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_kills_at_any_moment_change_nothing(s3_place, whole, tmp_path):
    for number, seconds in enumerate((0.1, 0.4)):
        process = start(SCRIPT, s3_place, tmp_path / f"machine-{number % 2}")
        assert process.stdout.readline() == "open\n", process.stderr.read()
        time.sleep(seconds)
        process.kill()
        process.communicate()
        for name, content in data(at(s3_place)).items():
            assert content == whole[name]
    ended = start(SCRIPT, s3_place, tmp_path / "machine-2")
    _, said = ended.communicate(timeout=100)
    assert ended.returncode == 0, said
    assert data(at(s3_place)) == whole


def test_half_an_upload_is_no_shard(s3_place, tmp_path):
    process = start(HALF_UPLOADED, s3_place, tmp_path / "machine")
    asked, said = process.communicate(timeout=100)
    assert process.returncode == -signal.SIGKILL, said
    assert asked.split().count("upload_part") >= 2
    assert list(at(s3_place)) == [f"rows/{PARTIAL}"]
    computed = []
    build(s3_place, compute=lambda index: computed.append(index) or shard(index))
    assert computed == list(range(NUM_SHARDS))
