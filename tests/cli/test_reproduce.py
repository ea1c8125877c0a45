"""`lexergy reproduce`: the list of studies, and one of them on a tiny run."""

import shutil
from pathlib import Path

import pytest

from lexergy.cli.main import run_command
from lexergy.cli.verbs.reproduce import read_seeds, read_settings
from lexergy.errors import LexergyError
from toys.commands import json_of


def test_reproduce_lists_its_studies(capsys):
    for arguments in (["reproduce"], ["reproduce", "--list"], ["reproduce", "figure-1", "--list"]):
        assert run_command(arguments) == 0
        text = capsys.readouterr().out
        assert all(name in text for name in ("table-1", "figure-2-right", "tables-5-6"))
    assert "base LM" in json_of(["reproduce"], capsys)["table-1"]


def test_reproduce_writes_a_study(tiny_recipe_file, tiny_run, tmp_path, monkeypatch, capsys):
    """The command's own run folder, so a run that is there already is only read."""
    shutil.copytree(tiny_run, tmp_path / "runs" / "reproduce" / "tiny-seed0")
    monkeypatch.chdir(tmp_path)
    arguments = ["reproduce", "figure-2-left", "--recipe", str(tiny_recipe_file), "--energy", "second", "--out", "here"]
    assert run_command(arguments) == 0
    output = capsys.readouterr()
    assert "stage" not in output.err
    assert "The gap between the bounds closes" in output.out
    assert "pessimistic" in output.out
    page = (tmp_path / "here" / "figure-2-left.md").read_text()
    command = f"lexergy reproduce figure-2-left --size cpu --seeds 1 --recipe {tiny_recipe_file} --energy second"
    assert f"`{command}`" in page
    assert {path.suffix for path in (tmp_path / "here").iterdir()} == {".md", ".csv", ".png"}

    record = json_of(arguments, capsys)
    assert (record["study"], record["energy"], record["seeds"]) == ("figure-2-left", "second", [0])
    table = record["tables"][0]
    assert all(len(row) == len(table["columns"]) for row in table["rows"])
    for finding in record["findings"]:
        assert f"**{finding['verdict']}**: {finding['sentence']}" in page
        assert finding["estimate"]["low"] <= finding["estimate"]["value"] <= finding["estimate"]["high"]
    assert all(Path(path).is_file() for path in (record["files"]["page"], *record["files"]["tables"]))


@pytest.mark.parametrize(
    ("text", "seeds"), [("1", (0,)), ("3", (0, 1, 2)), ("0,1,2", (0, 1, 2)), ("7,", (7,)), (" 4, 2 ", (4, 2))]
)
def test_seeds(text, seeds):
    assert read_seeds(text) == seeds


@pytest.mark.parametrize("text", ["9" * 21, "0," + "9" * 5000, str(2**21), "9" * 20, "0", "-1", "1,1", "x"])
def test_what_is_no_number_of_seeds_is_refused(text):
    with pytest.raises(LexergyError, match="`--seeds`"):
        read_seeds(text)


def test_settings():
    assert read_settings(None) == {}
    assert read_settings("windows=500, judge=smollm2-135m,top_k=none") == {
        "windows": 500,
        "judge": "smollm2-135m",
        "top_k": None,
    }
