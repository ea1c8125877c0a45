"""`lexergy score` with every kind of tiny model."""

import json
import math
import shutil

import pytest
from safetensors.torch import load_file

from lexergy.models.scoring.kinds import load_scorer
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
    shutil.copytree(cloze_run / "two-tower", bare, ignore=shutil.ignore_patterns("frequencies*"))
    command = ["score", bare, texts, "--json", "--tokens"]
    plain, relative = (json.loads(output_of([*command, *more], capsys).out) for more in ([], ["--relative"]))
    words = load_scorer("trigram").log_frequencies(["the state of our union"])[0]
    taken = [
        before["log_score"] - after["log_score"]
        for before, after in zip(plain["tokens"], relative["tokens"], strict=True)
    ]
    assert [value for value in taken if value] == pytest.approx(words)
    assert relative["log_score"] == pytest.approx(plain["log_score"] - sum(words))
