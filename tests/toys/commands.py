"""Running commands, and what they make: a run of two energies, cloze models of every kind, n-best lists."""

import contextlib
import io
import json
from pathlib import Path

import pytest
import typer
import yaml

from lexergy.cli.main import app, run_command
from lexergy.testing import save_tiny_encoder
from toys.corpora import write_shuffled_corpus
from toys.recipes import SHAPE, TRAINING, residual_recipe
from toys.texts import UNION_WORDS

CLOZE_MODELS = ["electric", "electra", "electra-tt", "two-tower", "masked-lm", "started", "finished"]
CLOZE_RECIPE = """
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


def output_of(arguments, capsys):
    """What a command that succeeds prints, on both streams."""
    capsys.readouterr()
    assert run_command([str(argument) for argument in arguments]) == 0
    return capsys.readouterr()


def json_of(arguments, capsys):
    """What a command prints with --json, which must be JSON and nothing else, without NaN or infinities."""

    def refuse(name):
        raise AssertionError(f"{name} is not JSON")

    return json.loads(output_of([*arguments, "--json"], capsys).out, parse_constant=refuse)


def mistake_of(arguments, capsys, status=2):
    """The message of a command that must fail as the user's mistake."""
    capsys.readouterr()
    assert run_command([str(argument) for argument in arguments]) == status
    output = capsys.readouterr()
    assert output.out == ""
    assert "Traceback" not in output.err
    assert 1 <= len(output.err.splitlines()) <= 2
    return output.err


@pytest.fixture(scope="session")
def tiny_recipe_file(tmp_path_factory) -> Path:
    """A recipe that trains everything from scratch in seconds."""
    folder = tmp_path_factory.mktemp("recipe")
    training = {"learning_rate": 0.01, "max_steps": 10, "batch_size": 8, "evaluate_every": 5}
    states = {"kind": "states", "layers": [1], "training": training}
    recipe = residual_recipe(
        write_shuffled_corpus(folder / "corpus", documents=12, words=200),
        seed=0,
        windows={"prefix": 8, "continuation": 8, "train": 24, "validation": 8, "test": 6},
        lm={"train": {"vocab_size": 300, **SHAPE, "max_length": 48, "training": training}},
        masked_lm=None,
        negatives={},
        energies={"first": states, "second": {**states, "hidden_units": 4}},
        perplexity={"samples": 32},
        generation={"prompts": ["our <script>alert(1)</script> union"], "candidates": 32, "max_new_tokens": 6},
    )
    path = folder / "tiny.yaml"
    path.write_text(yaml.safe_dump(recipe, sort_keys=False))
    return path


@pytest.fixture(scope="session")
def tiny_run(tiny_recipe_file) -> Path:
    """The folder of a run made by the command itself; what it printed is beside it, in summary.json."""
    folder = tiny_recipe_file.parent / "run"
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        assert run_command(["run", str(tiny_recipe_file), "--out", str(folder), "--json"]) == 0
    (folder.parent / "summary.json").write_text(output.getvalue())
    return folder


@pytest.fixture(scope="session")
def nbest_files(tmp_path_factory) -> dict[str, Path]:
    """Two n-best lists whose right hypothesis is the second."""
    folder, paths = tmp_path_factory.mktemp("nbest"), {}
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


@pytest.fixture(scope="session")
def cloze_recipe_file(tmp_path_factory, nbest_files) -> Path:
    """A recipe of every kind of cloze model, on tokens that the test list has no share in."""
    folder = tmp_path_factory.mktemp("cloze")
    save_tiny_encoder(folder / "encoder", sorted(set(UNION_WORDS)), num_layers=2)
    training = TRAINING | {"learning_rate": 0.001, "max_steps": 4, "batch_size": 4, "evaluate_every": 2}
    values = {
        "CORPUS": write_shuffled_corpus(folder / "corpus", documents=8, words=150),
        "NBEST": nbest_files["test"],
        "TRAINING": json.dumps(training | {"checkpoint_every": 2}),
        "ENCODER": folder / "encoder",
    }
    content = CLOZE_RECIPE
    for name, value in values.items():
        content = content.replace(name, str(value))
    path = folder / "tiny.yaml"
    path.write_text(content)
    return path


@pytest.fixture(scope="session")
def cloze_run(cloze_recipe_file) -> Path:
    """The folder of cloze models, by name, as `lexergy pretrain` leaves them."""
    folder = cloze_recipe_file.parent / "run"
    assert run_command(["pretrain", str(cloze_recipe_file), "--out", str(folder)]) == 0
    return folder


def parse(words):
    """Read a command line as the command would, without carrying it out."""
    command, context = typer.main.get_command(app), None
    while True:
        context = command.make_context(words[0] if words else "", list(words), parent=context)
        if not hasattr(command, "commands"):
            return
        _, command, words = command.resolve_command(context, [*context._protected_args, *context.args])


def leaves(command, path=()):
    """Each command below a group, with its name in full."""
    if hasattr(command, "commands"):
        for name, inner in command.commands.items():
            yield from leaves(inner, (*path, name))
    else:
        yield " ".join(path), command
