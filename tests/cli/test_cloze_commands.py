"""pretrain, score, rescore, explain and data, end to end on tiny models."""

import json
import math
import random
import shutil

import pytest
import torch
from safetensors.torch import load_file

from lexergy.cli.main import run_command
from lexergy.models.scoring.scorers import load_scorer
from lexergy.testing import save_tiny_encoder

TEXT = "the state of our union is strong and we will build a better future for all people in this nation"
RECIPE = """
name: tiny-cloze
corpus: {sources: [CORPUS], validation: 0.2, test: 0.2, apart_from: NBEST}
tokenizer: {vocab_size: 280, spoken: true}
block_length: 14
validation_blocks: 8
models:
  electric:
    {kind: electric, hidden_size: 16, num_layers: 1, num_heads: 2, noise_size: 1, start: unigram, training: &t TRAINING}
  electra: {kind: electra, hidden_size: 16, num_layers: 1, num_heads: 2, training: *t}
  electra-tt: {kind: electra-tt, hidden_size: 16, num_layers: 1, num_heads: 2, architecture: bert, training: *t}
  two-tower: {kind: two-tower, hidden_size: 16, num_layers: 1, num_heads: 2, start: unigram, training: *t}
  masked-lm: {kind: masked-lm, hidden_size: 16, num_layers: 1, num_heads: 2, training: *t}
  started: {kind: electric, encoder: ENCODER, hidden_size: 16, num_layers: 1, num_heads: 2, training: *t}
  finished:
    kind: electric
    residual: true
    noise: {model: two-tower, rising_steps: 2}
    hidden_size: 16
    num_layers: 1
    num_heads: 2
    training: *t
"""
TRAINING = "{learning_rate: 1.0e-3, max_steps: 4, batch_size: 4, evaluate_every: 2, checkpoint_every: 2}"
MODELS = ["electric", "electra", "electra-tt", "two-tower", "masked-lm", "started", "finished"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("cloze")


@pytest.fixture(autouse=True)
def own_cache(folder, monkeypatch):
    monkeypatch.setenv("LEXERGY_CACHE", str(folder / "cache"))


@pytest.fixture(scope="module")
def lists(folder):
    """Two n-best lists whose right hypothesis is the second."""
    paths = {}
    for name, count in (("dev", 4), ("test", 5)):
        content = {
            f"{name}-{number}": {
                "hyp_1": {"score": -1.0, "text": " our union nation of is"},
                "hyp_2": {"score": -1.1, "text": " the state of our union"},
                "ref": "the state of our union",
            }
            for number in range(count)
        }
        paths[name] = folder / f"{name}.json"
        paths[name].write_text(json.dumps(content))
    return paths


@pytest.fixture(scope="module")
def recipe(folder, lists):
    generator, words = random.Random(0), TEXT.split()
    corpus = folder / "corpus"
    corpus.mkdir()
    for number in range(8):
        (corpus / f"{number}.txt").write_text(" ".join(generator.choice(words) for _ in range(150)))
    encoder = folder / "encoder"
    save_tiny_encoder(encoder, sorted(set(words)), num_layers=2)
    values = {"CORPUS": corpus, "NBEST": lists["test"], "TRAINING": TRAINING, "ENCODER": encoder}
    content = RECIPE
    for name, value in values.items():
        content = content.replace(name, str(value))
    path = folder / "tiny.yaml"
    path.write_text(content)
    return path


@pytest.fixture(scope="module")
def models(folder, recipe):
    run = folder / "run"
    assert run_command(["pretrain", str(recipe), "--folder", str(run)]) == 0
    return run


def output_of(arguments, capsys):
    capsys.readouterr()
    assert run_command([str(argument) for argument in arguments]) == 0
    return capsys.readouterr()


def test_pretraining_again_only_reads(models, recipe, capsys):
    before = {path: path.stat().st_mtime_ns for path in models.rglob("*.safetensors")}
    output = output_of(["pretrain", recipe, "--folder", models, "--json"], capsys)
    result = json.loads(output.out)
    assert list(result["models"]) == MODELS
    assert set(result["models"]["electric"]["validation"]) == {"classifier_loss", "noise_loss", "accuracy", "log_z"}
    assert "stage" not in output.err
    assert before == {path: path.stat().st_mtime_ns for path in models.rglob("*.safetensors")}


def test_pretraining_prints_a_column_for_each_model(models, recipe, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    out = output_of(["pretrain", recipe, "--folder", models], capsys).out
    assert all(name in out for name in MODELS)
    assert "log Z" in out


@pytest.mark.parametrize("model", ["electric", "electra-tt", "two-tower", "masked-lm", "started", "finished"])
def test_every_model_scores(models, model, folder, capsys):
    texts = folder / "texts.txt"
    texts.write_text("The state of our union!\nbetter future\n\nbetter future\n")
    output = output_of(["score", models / model, texts, "--json", "--tokens"], capsys)
    rows = [json.loads(line) for line in output.out.splitlines()]
    assert [row["text"] for row in rows] == texts.read_text().splitlines()
    for row in rows:
        assert row["log_score"] == pytest.approx(sum(token["log_score"] for token in row["tokens"]))
        assert row["num_tokens"] == len(row["tokens"])
    assert rows[1] == rows[3]
    assert rows[2]["num_tokens"] == 0
    assert "line 3 is empty" in output.err
    plain = output_of(["score", models / model, texts], capsys).out.splitlines()
    assert plain[1].split("\t") == [f"{rows[1]['log_score']:.4f}", str(rows[1]["num_tokens"]), "better future"]


@pytest.mark.parametrize("model", ["electric", "two-tower", "masked-lm"])
def test_scores_relative_to_the_tokens_frequencies(models, model, folder, capsys):
    """Each token's own frequency in the training text, counted here, is taken away."""
    texts = folder / "few.txt"
    texts.write_text("the state of our union\n")
    command = ["score", models / model, texts, "--json", "--tokens"]
    plain, relative = (json.loads(output_of([*command, *more], capsys).out)["tokens"] for more in ([], ["--relative"]))
    trained_on = load_file(models / "tokens" / "tokens.safetensors")["train"].tolist()
    tokenizer = load_scorer(models / model).tokenizer
    total = len(trained_on) + len(tokenizer)
    for token, before, after in zip(tokenizer("the state of our union")["input_ids"], plain, relative, strict=True):
        frequency = (trained_on.count(token) + 1) / total
        assert before["log_score"] - after["log_score"] == pytest.approx(math.log(frequency), abs=1e-4)


def test_a_model_without_frequencies_cannot_score_relative_to_them(models, folder, capsys):
    texts, bare = folder / "one.txt", folder / "bare"
    texts.write_text("the state of our union\n")
    shutil.copytree(models / "two-tower", bare, ignore=shutil.ignore_patterns("frequencies*"))
    assert run_command(["score", str(bare), str(texts), "--relative"]) == 2
    assert "how frequent tokens are is not known" in capsys.readouterr().err


def test_rescoring(models, lists, folder, capsys):
    out = folder / "better.jsonl"
    arguments = ["rescore", lists["test"], "--model", models / "electric", "--model", models / "two-tower"]
    output = output_of([*arguments, "--dev", lists["dev"], "--out", out, "--json"], capsys)
    result = json.loads(output.out)
    names = [system["name"] for system in result["systems"]]
    assert names == ["1-best", "oracle", str(models / "electric"), str(models / "two-tower")]
    assert [system["test"] for system in result["systems"][:2]] == [100.0, 0.0]
    assert len(out.read_text().splitlines()) == 5
    without_model = json.loads(output_of(["rescore", lists["test"], "--dev", lists["dev"], "--json"], capsys).out)
    assert without_model["systems"] == result["systems"][:2]
    some = json.loads(output_of(["rescore", lists["test"], "--utterances", "2", "--json"], capsys).out)
    assert some["num_utterances"] == 2
    relative = ["rescore", lists["test"], "--model", models / "electric", "--lambda", "0.5", "--relative", "--json"]
    assert json.loads(output_of(relative, capsys).out)["systems"][2]["kind"] == "Electric PLL, relative"
    table = output_of([*arguments, "--lambda", "0.5"], capsys).out
    assert "1-best" in table
    assert "against the 1-best" in " ".join(table.split())
    assert "against the first model" in " ".join(table.split())


def test_explaining(models, folder, capsys):
    page = folder / "odd.html"
    text = "the <state> of ünion"
    out = output_of(["explain", models / "electric", "--text", text, "--html", page], capsys).out
    assert "oddest:" in out
    assert "&lt;state&gt;" in page.read_text() or "&lt;" in page.read_text()
    assert "<state>" not in page.read_text()
    (pieces,) = json.loads(output_of(["explain", models / "electric", "--text", text, "--json"], capsys).out)
    assert "".join(piece["text"] for piece in pieces) == text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["score", "MODEL", "none.txt"], "none.txt"),
        (["score", "none/at/all", "TEXT"], "does not exist"),
        (["rescore", "LIST", "--model", "MODEL"], "neither of `--dev` and `--lambda`"),
        (["rescore", "LIST", "--model", "MODEL", "--lambda", "0"], "`--lambda` is 0"),
        (["rescore", "TEXT", "--model", "MODEL", "--lambda", "1"], "is no valid JSON"),
        (
            ["rescore", "LIST", "--model", "MODEL", "--lambda", "1", "--metric", "rouge"],
            "expected one of wer, bleu, chrf",
        ),
        (["rescore", "LIST", "--model", "MODEL", "--lambda", "1", "--out", "x.txt"], "ends in .json or .jsonl"),
        (["explain", "MODEL"], "neither of `--text` and `--file`"),
        (["explain", "MODEL", "--text", " "], "the text is empty"),
        (["data", "nothing"], "expected one of: librispeech-nbest"),
        (["pretrain", "none.yaml"], "no recipe"),
    ],
    ids=lambda value: "-".join(value[:1] + value[-1:]).replace("/", "_") if isinstance(value, list) else None,
)
def test_mistakes_are_told_in_a_line(models, lists, folder, capsys, arguments, message):
    text = folder / "broken.json"
    text.write_text("{no json")
    places = {"MODEL": str(models / "electric"), "LIST": str(lists["test"]), "TEXT": str(text)}
    assert run_command([places.get(argument, argument) for argument in arguments]) != 0
    error = capsys.readouterr().err
    assert message in error
    assert "Traceback" not in error


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("kind: two-tower", "kind: three-tower", "models.two-tower.kind"),
        ("noise_size: 1", "noises: 1", "unknown key `models.electric.noises`"),
        ("model: two-tower", "model: masked-lm", "expected a two-tower model that stands before it"),
        ("rising_steps: 2", "rising_steps: 5", "comes to its full strength"),
        ("noise_size: 1", "noise_size: 1, noise: {model: two-tower, rising_steps: 1}", "in place of `noise_size`"),
        ("kind: masked-lm,", "kind: masked-lm, noise_size: 0.5,", "leave it out for masked-lm"),
        ("  electra:", "  tokens:", "names its folder"),
        ("kind: masked-lm,", "kind: masked-lm, encoder: some,", "`encoder` is for Electric and ELECTRA"),
    ],
    ids=["kind", "key", "not-towers", "rises-too-long", "two-noises", "noise", "name", "encoder"],
)
def test_mistakes_in_a_recipe_name_their_key(recipe, folder, capsys, old, new, message):
    path = folder / "mistaken.yaml"
    path.write_text(recipe.read_text().replace(old, new, 1))
    assert run_command(["pretrain", str(path)]) == 2
    assert message in capsys.readouterr().err


def test_a_finished_noise_is_the_model_of_that_name(models):
    finished = load_file(models / "two-tower" / "model.safetensors")
    beside = load_file(models / "finished" / "noise" / "model.safetensors")
    assert finished.keys() == beside.keys()
    assert all(torch.equal(value, beside[name]) for name, value in finished.items())
    manifest = json.loads((models / "finished" / "stage.json").read_text())
    assert list(manifest["built_from"]) == ["tokens", "two-tower"]


def test_an_encoder_of_another_width_is_told_so(models, recipe, folder, capsys):
    path = folder / "wider.yaml"
    path.write_text(recipe.read_text().replace("/encoder, hidden_size: 16", "/encoder, hidden_size: 32"))
    assert run_command(["pretrain", str(path), "--folder", str(models)]) == 2
    assert "`hidden_size` is 32 and that of the encoder" in capsys.readouterr().err
