"""`lexergy detect stress` end to end on a toy."""

import json

import pytest

from lexergy.cli.main import run_command
from lexergy.files import atomic_write_json


def stress(model, pairs, out, *options):
    texts = [pairs, "--human-field", "human", "--machine-field", "machine"]
    return run_command(["detect", "stress", *map(str, [*model, *texts, "--out", out, *options])])


@pytest.fixture
def model(encoder_detector, tmp_path):
    encoder_detector.save_pretrained(tmp_path / "model")
    return tmp_path / "model"


def test_a_table_for_people_and_pages(model, text_pairs_file, tmp_path, capsys):
    out = tmp_path / "out"
    assert stress([model], text_pairs_file, out, "--attacks", "zero-width, mixed", "--limit", 4) == 0
    shown = capsys.readouterr().out
    for part in ("none", "zero-width", "mixed", "normalised", "4 machine texts attacked"):
        assert part in " ".join(shown.split())
    assert "| zero-width, 1 of places between two letters |" in (out / "stress.md").read_text()
    assert "<td>mixed, 0.5 of sentences, replaced by people&#39;s</td>" in (out / "stress.html").read_text()
    assert stress([model], text_pairs_file, out, "--attacks", "zero-width,mixed", "--limit", 4, "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert found["attacks"][0]["normalised"]["auc_cost"] == {"value": 0, "low": 0, "high": 0}
    assert found["unattacked"]["auc"] == found["attacks"][0]["normalised"]["auc"]


def test_an_lm_judges_as_it_is(word_lm_folder, text_pairs_file, tmp_path, capsys):
    options = ["--attacks", "zero-width", "--limit", 3, "--scorer", "likelihood", "--lm", word_lm_folder, "--json"]
    assert stress([], text_pairs_file, tmp_path / "out", *options) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["attribution"] is None
    assert found["attacks"][0]["normalised"]["auc_cost"] == {"value": 0, "low": 0, "high": 0}


def test_mistakes_are_told(model, text_pairs_file, tmp_path, capsys):
    assert stress([model], text_pairs_file, tmp_path / "out", "--attacks", "laser") != 0
    assert "`laser`; expected some of: homoglyphs" in capsys.readouterr().err
    atomic_write_json(model / "detector.json", {})
    assert stress([model], text_pairs_file, tmp_path / "out") != 0
    assert "damaged" in capsys.readouterr().err
