"""`lexergy data`: which data a name stands for."""

from pathlib import Path

import pytest

from lexergy.data import librispeech, sotu_tasks
from toys.commands import json_of, output_of


@pytest.mark.parametrize("name", ["librispeech-nbest", "sotu-tasks"])
def test_the_paths_of_the_data_are_told(name, monkeypatch, capsys):
    files = {"librispeech-nbest": {"dev": Path("dev.json")}, "sotu-tasks": {"train": Path("a"), "test": Path("b")}}
    monkeypatch.setattr(librispeech, "librispeech_nbest", lambda: files["librispeech-nbest"])
    monkeypatch.setattr(sotu_tasks, "sotu_tasks", lambda: files["sotu-tasks"])
    assert output_of(["data", name], capsys).out.splitlines() == [str(path) for path in files[name].values()]
    assert json_of(["data", name], capsys) == {part: str(path) for part, path in files[name].items()}
