import os
import resource
import signal
import subprocess
import sys
from contextlib import contextmanager

import pytest

from lexergy.files import (
    atomic_path,
    atomic_write_bytes,
    atomic_write_json,
    atomic_write_text,
    hash_of,
    remove_partials,
)


@contextmanager
def files_limited_to(num_bytes):
    """Let the kernel refuse longer files: a disk that fills up in the middle of a write."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_writes_replace_the_old_content_and_leave_nothing_else(tmp_path):
    path = tmp_path / "new" / "file.txt"
    atomic_write_text(path, "old, longer content")
    atomic_write_text(path, "naïve")
    assert path.read_bytes() == "naïve".encode()
    atomic_write_json(path, {"b": [1, None], "a": "ü"})
    assert path.read_text(encoding="utf-8") == '{\n  "b": [\n    1,\n    null\n  ],\n  "a": "ü"\n}\n'
    assert names(path.parent) == ["file.txt"]


def test_a_full_disk_keeps_the_old_file_and_leaves_nothing_half_written(tmp_path):
    atomic_write_bytes(tmp_path / "file", b"old")
    with files_limited_to(1000), pytest.raises(OSError, match="File too large"):
        atomic_write_bytes(tmp_path / "file", b"x" * 5000)
    assert (tmp_path / "file").read_bytes() == b"old"
    assert names(tmp_path) == ["file"]


def test_a_failed_flush_keeps_the_old_file(tmp_path, monkeypatch):
    atomic_write_bytes(tmp_path / "file", b"old")

    def no_space(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", no_space)
    with pytest.raises(OSError, match="No space left"):
        atomic_write_bytes(tmp_path / "file", b"new")
    assert (tmp_path / "file").read_bytes() == b"old"
    assert names(tmp_path) == ["file"]


def test_a_folder_appears_whole_replaces_the_old_one_and_vanishes_on_interrupt(tmp_path):
    folder = tmp_path / "model"
    for content in ("first", "second"):
        with atomic_path(folder) as partial:
            (partial / "inner").mkdir(parents=True)
            (partial / "inner" / content).write_text(content)
    assert names(folder / "inner") == ["second"]

    def interrupted():
        with atomic_path(folder) as partial:
            partial.mkdir()
            (partial / "half").write_text("half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert names(tmp_path) == ["model"]
    assert names(folder / "inner") == ["second"]


def test_partials_of_dead_processes_are_removed_and_those_of_the_living_kept(tmp_path):
    (tmp_path / ".foreign.partial").write_text("not ours")
    script = (
        "import os, signal, sys; from lexergy.files import atomic_path\n"
        "with atomic_path(sys.argv[1]) as partial:\n"
        "    partial.write_text('half')\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    dead = subprocess.run([sys.executable, "-c", script, str(tmp_path / "dead")])
    assert dead.returncode == -signal.SIGKILL
    assert len(names(tmp_path)) == 2
    # An earlier process with our own process id, as containers have them.
    (tmp_path / f".earlier.{os.getpid()}-00000000-00000000.partial").write_text("half")
    with atomic_path(tmp_path / "living") as partial:
        partial.write_text("whole")
        remove_partials(tmp_path)
        assert names(tmp_path) == sorted([".foreign.partial", partial.name])
    assert (tmp_path / "living").read_text() == "whole"


def test_hash_ignores_key_order_and_sees_every_value():
    value = {"seed": 0, "corpus": {"name": "sotu", "share": 0.1}}
    assert hash_of(value) == hash_of({"corpus": {"share": 0.1, "name": "sotu"}, "seed": 0})
    assert len(hash_of(value)) == 16
    others = [{**value, "seed": 1}, {**value, "seed": "0"}, {**value, "corpus": {"name": "sotu"}}, [value]]
    assert len({hash_of(other) for other in [value, *others]}) == 5
    with pytest.raises(ValueError, match="not JSON compliant"):
        hash_of(float("nan"))
