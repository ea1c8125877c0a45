"""Stages: what is redone, what is kept, what survives a kill, and who may write."""

import json
import subprocess
import sys

import pytest

from lexergy.errors import LexergyError
from lexergy.runs.legacy import StageRunner, locked
from lexergy.runs.stages import MANIFEST, PARTIAL, read_stage, stage_seed


class Workshop:
    """Two stages, the second reading the first, that count how often they are built."""

    def __init__(self, folder, seed=0):
        self.folder, self.seed, self.built = folder, seed, []

    def run(self, first=1, second=1, fail=None):
        runner = StageRunner(self.folder, self.seed, lambda text: None)

        def build(name):
            def work(folder, seed):
                self.built.append(name)
                (folder / "begun").write_text("x")
                if fail == name:
                    raise KeyboardInterrupt
                (folder / "result").write_text(f"{name} {seed}")
                return {"answer": 42}

            return work

        one = runner.run("one", {"value": first}, [], build("one"))
        return runner.run("two", {"value": second}, [one], build("two"))


def test_a_finished_stage_is_not_built_again(tmp_path):
    workshop = Workshop(tmp_path)
    stage = workshop.run()
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    assert workshop.run() == stage
    assert workshop.built == ["one", "two"]
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before
    assert stage.facts == {"answer": 42}
    assert not (stage.folder / PARTIAL).exists()


def test_a_change_redoes_just_what_depends_on_it(tmp_path):
    workshop = Workshop(tmp_path)
    workshop.run()
    workshop.run(second=2)
    assert workshop.built == ["one", "two", "two"]
    workshop.run(first=2, second=2)
    assert workshop.built == ["one", "two", "two", "one", "two"]


def test_another_seed_redoes_everything(tmp_path):
    Workshop(tmp_path).run()
    other = Workshop(tmp_path, seed=1)
    stage = other.run()
    assert other.built == ["one", "two"]
    assert stage.seed == stage_seed(1, "two") != stage_seed(1, "one")
    assert (stage.folder / "result").read_text() == f"two {stage.seed}"


def test_a_killed_stage_finds_its_earlier_work(tmp_path):
    workshop = Workshop(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        workshop.run(fail="two")
    with pytest.raises(LexergyError, match="not finished"):
        read_stage(tmp_path / "two")
    (tmp_path / "two" / "half").write_text("kept")
    stage = workshop.run()
    assert workshop.built == ["one", "two", "two"]
    assert (stage.folder / "half").read_text() == "kept"
    assert stage.attempts == 2


def test_work_of_another_configuration_is_cleared(tmp_path):
    workshop = Workshop(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        workshop.run(second=1, fail="two")
    (tmp_path / "two" / "half").write_text("stale")
    stage = workshop.run(second=2)
    assert not (stage.folder / "half").exists()
    (stage.folder / "result").write_text("of second=2")
    assert (workshop.run(second=1).folder / "result").read_text().startswith("two ")


def test_killed_while_clearing_leaves_nothing_that_looks_finished(tmp_path):
    workshop = Workshop(tmp_path)
    stage = workshop.run()
    stage.folder.rename(tmp_path / ".stale-two")  # what a kill just before the deletion leaves
    workshop.run(second=2)
    assert workshop.built == ["one", "two", "two"]
    assert not (tmp_path / ".stale-two").exists()


def test_killed_while_writing_the_first_file_of_a_stage(tmp_path):
    workshop = Workshop(tmp_path)
    (tmp_path / "two").mkdir()
    (tmp_path / "two" / f".{PARTIAL}.1-0a1b2c3d-0a1b2c3d.partial").write_text("{")  # process 1 is alive
    stage = workshop.run()
    assert sorted(path.name for path in stage.folder.iterdir()) == ["begun", "result", MANIFEST]


def test_files_of_others_are_never_deleted(tmp_path):
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "thesis.txt").write_text("precious")
    with pytest.raises(LexergyError, match="no run of Lexergy wrote"):
        Workshop(tmp_path).run()
    assert (tmp_path / "one" / "thesis.txt").read_text() == "precious"


def test_the_manifest_says_what_the_stage_was_built_from(tmp_path):
    stage = Workshop(tmp_path).run(second=5)
    manifest = json.loads((stage.folder / MANIFEST).read_text())
    assert manifest["config"] == {"value": 5}
    assert manifest["built_from"] == {"one": read_stage(tmp_path / "one").key}
    assert set(manifest["versions"]) == {"lexergy", "torch", "transformers"}
    assert manifest["seconds"] >= 0


HOLD = """
import sys, time
from pathlib import Path
from lexergy.runs.legacy import locked
with locked(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def test_one_process_at_a_time_and_a_dead_one_holds_no_lock(tmp_path):
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(LexergyError, match="another process is writing"), locked(tmp_path):
            pass
    finally:
        holder.kill()
        holder.wait()
        holder.stdout.close()
    with locked(tmp_path):
        pass


def test_the_run_folder_is_not_a_file(tmp_path):
    path = tmp_path / "file"
    path.write_text("")
    with pytest.raises(LexergyError, match="is a file"), locked(path):
        pass
