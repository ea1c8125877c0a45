"""`lexergy data`: which data a name stands for."""

from pathlib import Path

import pytest

from lexergy.data import catalogue
from toys.commands import json_of, output_of


@pytest.mark.parametrize("name", list(catalogue.CATALOGUE))
def test_the_paths_of_the_data_are_told(name, monkeypatch, capsys):
    files = {"train": Path("a"), "test": Path("b")}
    entry = catalogue.CATALOGUE[name]._replace(files=lambda: files)
    monkeypatch.setitem(catalogue.CATALOGUE, name, entry)
    output = output_of(["data", name], capsys)
    assert output.out.splitlines() == ["a", "b"]
    assert ("not free" in output.err) == (name == "conll2003")
    assert json_of(["data", name], capsys) == {"train": "a", "test": "b"}


def test_the_list_has_licences_and_counts(capsys):
    listed = {row["name"]: row for row in json_of(["data"], capsys)}
    assert list(listed) == list(catalogue.CATALOGUE)
    assert listed["conll2003"]["licence"] == "Reuters, for research"
    assert "14,041 / 3,250 / 3,453 sentences" in listed["conll2003"]["holds"]
    assert "964 labels" in listed["ud-ewt"]["holds"]
    assert "CC BY-SA 4.0" in output_of(["data"], capsys).out


@pytest.mark.parametrize("name", ["librispeech-nbest", "sotu-tasks", "conll2003"])
def test_what_is_in_the_cache_is_not_fetched_again(name, own_cache):
    folders = {"librispeech-nbest": "librispeech-nbest", "sotu-tasks": "sotu-tasks-v1", "conll2003": "conll2003"}
    (own_cache / folders[name]).mkdir(parents=True)
    assert {path.parent for path in catalogue.CATALOGUE[name].files().values()} == {own_cache / folders[name]}


def test_what_is_in_the_data_folder_is_found_there(tmp_path, monkeypatch):
    monkeypatch.setenv("LEXERGY_DATA", str(tmp_path))
    paths = ["ud_ewt/en_ewt-train.conllu", "ud_ewt/en_ewt-dev.conllu", "ud_ewt/en_ewt-test.conllu"]
    for path in [*paths, "tatoeba_de_en/deu.txt"]:
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).touch()
    assert list(catalogue.CATALOGUE["ud-ewt"].files().values()) == [tmp_path / path for path in paths]
    assert catalogue.CATALOGUE["tatoeba-de-en"].files() == {"pairs": tmp_path / "tatoeba_de_en/deu.txt"}
