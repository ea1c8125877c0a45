import contextlib
import io
import random

import pytest

from lexergy.cli.main import run_command

TEXT = "the state of our union is strong and we will build a better future for all people in this nation"
TRAINING = "{learning_rate: 1.0e-2, max_steps: 10, batch_size: 8, evaluate_every: 5}"
RECIPE = f"""
name: tiny
corpus: {{source: CORPUS, validation: 0.2, test: 0.2}}
windows: {{prefix: 8, continuation: 8, train: 24, validation: 8, test: 6}}
lm:
  train:
    {{vocab_size: 300, hidden_size: 16, num_layers: 1, num_heads: 2, max_length: 48, training: {TRAINING}}}
energies:
  first: {{kind: states, layers: [1], training: {TRAINING}}}
  second: {{kind: states, layers: [1], hidden_units: 4, training: {TRAINING}}}
perplexity: {{samples: 32}}
generation: {{prompts: ["our <script>alert(1)</script> union"], candidates: 32, max_new_tokens: 6}}
"""


@pytest.fixture(scope="session")
def tiny_recipe(tmp_path_factory):
    """A recipe that trains everything from scratch in seconds."""
    folder = tmp_path_factory.mktemp("recipe")
    generator, words = random.Random(0), TEXT.split()
    corpus = folder / "corpus"
    corpus.mkdir()
    for number in range(12):
        text = " ".join(generator.choice(words) for _ in range(200))
        (corpus / f"{number:02d}.txt").write_text(text)
    path = folder / "tiny.yaml"
    path.write_text(RECIPE.replace("CORPUS", str(corpus)))
    return path


@pytest.fixture(scope="session")
def tiny_run(tiny_recipe):
    """The folder of a run made by the command itself; what it printed is beside it, in summary.json."""
    folder = tiny_recipe.parent / "run"
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        assert run_command(["run", str(tiny_recipe), "--folder", str(folder), "--json"]) == 0
    (folder.parent / "summary.json").write_text(output.getvalue())
    return folder
