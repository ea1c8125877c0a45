"""`lexergy run` in two processes: one run, the training shared out, and the same result."""

import json
import shutil

import pytest

from lexergy.recipes.residual import ResidualRecipe
from lexergy.runs.records import load_run
from lexergy.tasks.residual.run import run
from toys.processes import launch
from toys.recipes import TRAINING, residual_recipe

LAUNCHED = """
import json, sys
from lexergy.recipes.residual import ResidualRecipe
from lexergy.tasks.residual.run import run

with open(sys.argv[1]) as file:
    result = run(ResidualRecipe.model_validate(json.load(file)), sys.argv[2])
print(result.baselines["ralm"].perplexity, flush=True)
"""


def test_two_processes_make_one_run(tiny_corpus, finished_run, tmp_path):
    """On top of finished stages: a training that both share, then a stage that the first builds alone."""
    recipe = ResidualRecipe.model_validate(
        residual_recipe(tiny_corpus, baselines={"ralm": {"kind": "ralm", "training": TRAINING}})
    )
    for name in ("alone", "together"):
        shutil.copytree(finished_run, tmp_path / name)
    (tmp_path / "recipe.json").write_text(json.dumps(recipe.plain()))
    script = tmp_path / "launched.py"
    script.write_text(LAUNCHED)
    done = launch(script, tmp_path / "recipe.json", tmp_path / "together")
    assert [line for line in done.stderr.splitlines() if line.startswith("stage")] == ["stage ralm", "stage baselines"]
    assert done.stdout.splitlines() == [done.stdout.splitlines()[0]] * 2  # both read the same result

    alone, together = (
        run(recipe, tmp_path / "alone", progress=False),
        load_run(tmp_path / "together"),
    )
    losses, expected = (
        [record["validation"]["loss"] for record in result.histories["ralm"]] for result in (together, alone)
    )
    assert losses == pytest.approx(expected, abs=1e-5)
    assert losses[-1] < losses[0]
    assert together.baselines["ralm"].perplexity == pytest.approx(alone.baselines["ralm"].perplexity, rel=1e-5)
