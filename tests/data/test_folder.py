"""Data that recipes name without a machine's path: where it is looked for, and what is said where it is not."""

import pytest
import yaml

from lexergy.data.corpora import load_corpus
from lexergy.data.folder import ORIGINS, PREFIX, VARIABLE, locate
from lexergy.data.masked.phonemes import load_phonemes
from lexergy.data.translation.pairs import load_pairs
from lexergy.errors import LexergyError
from lexergy.recipes.loader import packaged_recipes
from lexergy.runs.fingerprint import fingerprint

READERS = (load_corpus, load_pairs, load_phonemes, fingerprint)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    (tmp_path / "sub").mkdir()
    return tmp_path


def test_data_is_read_from_the_folder_that_the_variable_names(folder):
    (folder / "sub" / "text.txt").write_text("a\tb\n")
    assert locate("data:sub/text.txt") == folder / "sub" / "text.txt"
    assert [document.text.strip() for document in load_corpus("data:sub/text.txt")] == ["a\tb"]
    assert load_pairs("data:sub/text.txt").pairs == [("a", "b")]
    assert len(load_phonemes("data:sub/text.txt").tokens) == 1
    assert fingerprint("data:sub/text.txt") == fingerprint(str(folder / "sub" / "text.txt")) is not None


def test_other_sources_are_paths_and_names_as_before(folder, monkeypatch):
    monkeypatch.setenv("HOME", str(folder))
    assert locate("~/x") == folder / "x"
    assert fingerprint("sotu") is None


@pytest.mark.parametrize("read", READERS)
def test_it_is_said_what_to_set_and_where_the_data_are(read, monkeypatch, tmp_path):
    monkeypatch.delenv(VARIABLE, raising=False)
    with pytest.raises(LexergyError, match=r"set LEXERGY_DATA to .* `wikitext2/train\.txt`; WikiText-2 is `Salesforce"):
        read("data:wikitext2/train.txt")
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    with pytest.raises(LexergyError, match=r"`data:mine\.txt` is not in .*; put it there, or set LEXERGY_DATA to"):
        read("data:mine.txt")


def strings(content):
    if isinstance(content, dict | list):
        for part in content.values() if isinstance(content, dict) else content:
            yield from strings(part)
    elif isinstance(content, str):
        yield content


@pytest.mark.parametrize("name", packaged_recipes())
def test_packaged_recipes_name_no_place_on_a_machine(name):
    for value in strings(yaml.safe_load(packaged_recipes()[name].read_text(encoding="utf-8"))):
        assert not value.startswith(("/", ".", "~")), value
        if value.startswith(PREFIX):
            assert value.removeprefix(PREFIX).split("/")[0] in ORIGINS
