"""Stages: what is redone, what is kept, what survives a kill, and who may write."""

import json
import subprocess
import sys
from dataclasses import replace

import pytest

from lexergy.errors import LexergyError
from lexergy.runs.stages import MANIFEST, PARTIAL, read_stage, stage_seed
from lexergy.runs.workspace import open_workspace


class Workshop:
    """Two stages, the second reading the first, that count how often they are built."""

    def __init__(self, folder, seed=0):
        self.folder, self.seed, self.built = folder, seed, []

    def run(self, first=1, second=1, fail=None):
        def build(stage):
            self.built.append(stage.name)
            (stage.folder / "begun").write_text("x")
            if fail == stage.name:
                raise KeyboardInterrupt
            (stage.folder / "result").write_text(f"{stage.name} {stage.seed}")
            return {"answer": 42}

        with open_workspace(self.folder, self.seed, progress=False) as workspace:
            read = workspace.stage("one", {"value": first}, [], build)
            return workspace.stage("two", {"value": second}, [read], build)


def times(folder):
    return {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.name != ".lock"}


def test_a_finished_stage_is_not_built_again(tmp_path):
    workshop = Workshop(tmp_path)
    stage = workshop.run()
    before = times(tmp_path)
    assert workshop.run() == stage
    assert workshop.built == ["one", "two"]
    assert times(tmp_path) == before
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
from lexergy.runs.workspace import open_workspace
with open_workspace(sys.argv[1], seed=0):
    print("held", flush=True)
    time.sleep(60)
"""


def test_one_process_at_a_time_and_a_dead_one_holds_no_lock(tmp_path):
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(LexergyError, match="another process is writing"), open_workspace(tmp_path, seed=0):
            pass
    finally:
        holder.kill()
        holder.wait()
        holder.stdout.close()
    with open_workspace(tmp_path, seed=0):
        pass


def test_the_run_folder_is_not_a_file(tmp_path):
    path = tmp_path / "file"
    path.write_text("")
    with pytest.raises(LexergyError, match="is a file"), open_workspace(path, seed=0):
        pass


def test_seconds_part_making_from_measuring(tmp_path):
    """By folder, and by what a stage that does both says of itself."""
    with open_workspace(tmp_path, seed=0, progress=False) as workspace:
        workspace.stage("model", {}, [], lambda stage: {})
        workspace.stage("measured/table", {}, [], lambda stage: {})
        workspace.stage("measured-too", {}, [], lambda stage: {"measuring_seconds": 1.0})
        for stage, seconds in zip(list(workspace.stages.values()), (2.0, 3.0, 5.0), strict=True):
            workspace.stages[stage.name] = replace(stage, seconds=seconds)
        assert workspace.seconds("measured") == (2.0 + 4.0, 3.0 + 1.0)
        assert workspace.seconds() == (2.0 + 3.0 + 4.0, 1.0)


def test_a_workspace_below_shares_the_lock(tmp_path):
    with open_workspace(tmp_path, seed=3, progress=False) as workspace:
        stage = workspace.below("studies").stage("one", {}, [], lambda stage: {})
    assert stage.folder == tmp_path / "studies" / "one"
    assert stage.seed == stage_seed(3, "one")
    assert not (tmp_path / "studies" / ".lock").exists()


@pytest.mark.parametrize("content", ["", "{", "[]", "7", '{"key": 3}', "\xff", "[" * 10**5])
def test_a_damaged_manifest_is_made_again(tmp_path, content):
    workshop = Workshop(tmp_path)
    stage = workshop.run()
    (tmp_path / "two" / MANIFEST).write_text(content, encoding="latin-1")
    with pytest.raises(LexergyError, match=r"two/stage\.json|stage .*two"):
        read_stage(tmp_path / "two")
    assert workshop.run().key == stage.key
    assert workshop.built == ["one", "two", "two"]


@pytest.mark.parametrize("damage", ["removed", "cut"])
def test_a_lost_file_is_noticed_and_made_again_beside_what_is_left(tmp_path, damage):
    workshop = Workshop(tmp_path)
    workshop.run()
    result = tmp_path / "two" / "result"
    whole = result.read_text()
    result.unlink() if damage == "removed" else result.write_text(whole[:-1])
    (tmp_path / "two" / "half").write_text("kept")
    with pytest.raises(LexergyError, match="two/result is missing or has another size; start the same run again"):
        read_stage(tmp_path / "two")
    stage = workshop.run()
    assert workshop.built == ["one", "two", "two"]
    assert result.read_text() == whole
    assert (stage.folder / "half").read_text() == "kept"


def test_stages_of_earlier_versions_have_no_list_of_files(tmp_path):
    workshop = Workshop(tmp_path)
    stage = workshop.run()
    manifest = json.loads((stage.folder / MANIFEST).read_text())
    del manifest["files"]
    (stage.folder / MANIFEST).write_text(json.dumps(manifest))
    (stage.folder / "result").unlink()
    workshop.run()
    assert workshop.built == ["one", "two"]


def test_a_stage_below_another_has_files_of_its_own(tmp_path):
    with open_workspace(tmp_path, 0, progress=False) as workspace:

        def outer(stage):
            workspace.stage("outer/inner", {}, [], lambda inner: (inner.folder / "own").write_text("x") and {})
            (stage.folder / "result").write_text("x")
            return {}

        stage = workspace.stage("outer", {}, [], outer)
    assert json.loads((stage.folder / MANIFEST).read_text())["files"] == {"result": 1}


def test_what_a_killed_writer_left_is_removed(tmp_path):
    workshop = Workshop(tmp_path / "run")
    workshop.run()
    names = (".result.77-0123abcd-0123abcd.partial", ".tmpWE6boH")  # of ours, and of safetensors
    for name in names:
        (tmp_path / "run" / "one" / name).write_text("x")
    (tmp_path / "run" / "one" / ".tmp-of-somebody").write_text("x")
    workshop.run()
    left = {path.name for path in (tmp_path / "run" / "one").iterdir()}
    assert ".tmp-of-somebody" in left
    assert not left.intersection(names)
