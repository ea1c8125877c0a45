"""`lexergy score` with every kind of tiny model."""

import json
import math
import shutil

import pytest
from safetensors.torch import load_file

from lexergy.cli.main import run_command
from lexergy.models.scoring.kinds import load_scorer
from lexergy.tasks.cloze import file_scoring
from toys.commands import output_of

pytestmark = pytest.mark.usefixtures("own_cache")


@pytest.mark.parametrize("model", ["electric", "electra-tt", "two-tower", "masked-lm", "started", "finished"])
def test_every_model_scores(cloze_run, model, tmp_path, capsys):
    texts = tmp_path / "texts.txt"
    texts.write_text("The state of our union!\nbetter future\n\nbetter future\n")
    output = output_of(["score", cloze_run / model, texts, "--json", "--tokens"], capsys)
    rows = [json.loads(line) for line in output.out.splitlines()]
    assert [row["text"] for row in rows] == texts.read_text().splitlines()
    for row in rows:
        assert row["log_score"] == pytest.approx(sum(token["log_score"] for token in row["tokens"]))
        assert row["num_tokens"] == len(row["tokens"])
    assert rows[1] == rows[3]
    assert rows[2]["num_tokens"] == 0
    assert "line 3 is empty" in output.err
    plain = output_of(["score", cloze_run / model, texts], capsys).out.splitlines()
    assert plain[1].split("\t") == [f"{rows[1]['log_score']:.4f}", str(rows[1]["num_tokens"]), "better future"]


@pytest.mark.parametrize("model", ["electric", "two-tower", "masked-lm"])
def test_scores_relative_to_the_tokens_frequencies(cloze_run, model, tmp_path, capsys):
    """Each token's own frequency in the training text, counted here, is taken away."""
    texts = tmp_path / "few.txt"
    texts.write_text("the state of our union\n")
    command = ["score", cloze_run / model, texts, "--json", "--tokens"]
    plain, relative = (json.loads(output_of([*command, *more], capsys).out)["tokens"] for more in ([], ["--relative"]))
    trained_on = load_file(cloze_run / "tokens" / "tokens.safetensors")["train"].tolist()
    tokenizer = load_scorer(cloze_run / model).tokenizer
    total = len(trained_on) + len(tokenizer)
    for token, before, after in zip(tokenizer("the state of our union")["input_ids"], plain, relative, strict=True):
        frequency = (trained_on.count(token) + 1) / total
        assert before["log_score"] - after["log_score"] == pytest.approx(math.log(frequency), abs=1e-4)


def test_a_model_without_frequencies_of_its_own_is_relative_to_those_of_words(cloze_run, tmp_path, capsys):
    """The words' unigrams in the trigram LM, each counted at the token that its word begins with."""
    pytest.importorskip("pocketsphinx")
    texts, bare = tmp_path / "few.txt", tmp_path / "bare"
    texts.write_text("The state of our union!\n")
    shutil.copytree(cloze_run / "two-tower", bare, ignore=shutil.ignore_patterns("frequencies*", "stage.json"))
    command = ["score", bare, texts, "--json", "--tokens"]
    plain, relative = (json.loads(output_of([*command, *more], capsys).out) for more in ([], ["--relative"]))
    words = load_scorer("trigram").log_frequencies(["the state of our union"])[0]
    taken = [
        before["log_score"] - after["log_score"]
        for before, after in zip(plain["tokens"], relative["tokens"], strict=True)
    ]
    assert [value for value in taken if value] == pytest.approx(words)
    assert relative["log_score"] == pytest.approx(plain["log_score"] - sum(words))


def test_a_large_file_is_scored_into_shards(cloze_run, tmp_path, capsys, monkeypatch):
    """The lines are printed as ever; parts compute their shards, and what is finished is only read."""
    monkeypatch.setattr(file_scoring, "TEXTS_AT_ONCE", 2)
    texts, out = tmp_path / "texts.txt", tmp_path / "scores"
    texts.write_text("The state of our union!\nbetter future\n\nbetter future\nour union")
    command = ["score", cloze_run / "electric", texts, "--json", "--tokens"]
    for more in ([], ["--relative"]):
        whole = [json.loads(line) for line in output_of([*command, *more], capsys).out.splitlines()]
        for part, number in (("1/2", 2), ("2/2", 1)):
            output = output_of([*command, *more, "--out", out, "--part", part], capsys)
            assert output.out == ""
            assert f"scores: part {part} done: {number} of 3 shards" in output.err
        output = output_of([*command, *more, "--out", out], capsys)
        rows = [json.loads(line) for line in output.out.splitlines()]
        assert [row["text"] for row in rows] == texts.read_text().splitlines()
        assert "line 3 is empty" in output.err
        for row, expected in zip(rows, whole, strict=True):
            assert row["log_score"] == pytest.approx(expected["log_score"], abs=1e-5)
            assert [token["token"] for token in row["tokens"]] == [token["token"] for token in expected["tokens"]]


@pytest.mark.parametrize(
    ("options", "part"),
    [
        (["texts.txt", "--part", "1/2"], "need a folder; expected `--out`"),
        (["texts.txt", "--engine", "in-place"], "need a folder; expected `--out`"),
        (["-", "--out", "scores"], "standard input; expected a file"),
        (["blank.txt", "--out", "scores"], "holds no text"),
        (["latin.txt", "--out", "scores"], "not UTF-8 text (line 2)"),
        (["missing.txt", "--out", "scores"], "missing.txt"),
    ],
)
def test_mistakes_with_shards(cloze_run, options, part, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "texts.txt").write_text("our union\n")
    (tmp_path / "blank.txt").write_text(" \n\n")
    (tmp_path / "latin.txt").write_bytes(b"our union\n" + b"caf\xe9 " * 10_000)
    assert run_command(["score", str(cloze_run / "electric"), *options]) != 0
    error = capsys.readouterr().err
    assert part in error
    assert "Traceback" not in error
