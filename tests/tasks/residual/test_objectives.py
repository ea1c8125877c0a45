"""A whole run with energies from scratch, each trained on another objective."""

import json
import math

import pytest

from lexergy.models.causal.product_lm import num_parameters
from lexergy.models.energies import BiLSTMEnergy, EnergyModel, LinearEnergy
from lexergy.recipes.residual import ResidualRecipe
from lexergy.report.pages.run import render_page
from lexergy.tasks.residual.parameters import count_parameters
from lexergy.tasks.residual.run import run
from toys.recipes import TRAINING, residual_recipe

LONGER = TRAINING | {"max_steps": 40, "evaluate_every": 10, "checkpoint_every": 20}
SHAPE = {"embedding_size": 16, "hidden_size": 16, "num_layers": 1, "dropout": 0.1}
ENERGIES = {
    "linear": {"kind": "linear", "objective": {"mining": "hardest"}, "training": LONGER},
    "bilstm": {"kind": "bilstm", **SHAPE, "training": LONGER | {"learning_rate": 0.03}},
    "ranked": {"kind": "linear", "objective": {"loss": "ranking", "mining": "all"}, "training": LONGER},
    "first": {"kind": "bit", "from": "masked_lm", "pooling": "first", "training": TRAINING},
}


@pytest.fixture(scope="module")
def trained(tiny_corpus, tmp_path_factory):
    recipe = ResidualRecipe.model_validate(
        residual_recipe(tiny_corpus, energies=ENERGIES, generation=None, perplexity={"samples": 8, "windows": 4})
    )
    folder = tmp_path_factory.mktemp("runs") / "objectives"
    return recipe, folder, run(recipe, folder, progress=False)


def test_energies_learn_by_each_objective(trained):
    _, _, result = trained
    for name, energy in result.energies.items():
        assert math.isfinite(energy.perplexity.upper)
        losses = [record["validation"]["loss"] for record in energy.history]
        assert min(losses[1:]) < losses[0], name
    at_chance = [result.energies[name].history[0]["validation"] for name in ("linear", "ranked")]
    assert at_chance[0]["loss"] == pytest.approx(2 * math.log(2))
    assert at_chance[1]["loss"] == pytest.approx(1.0)  # the margin
    assert at_chance[1]["precision_at_1"] == pytest.approx(1 / 3)  # of two negatives
    assert result.energies["ranked"].history[-1]["validation"]["precision_at_1"] > 1 / 3


def test_what_is_counted_is_what_is_built(trained):
    recipe, folder, _ = trained
    built = {name: EnergyModel.from_pretrained(folder / name) for name in ENERGIES}
    assert isinstance(built["linear"], LinearEnergy)
    assert isinstance(built["bilstm"], BiLSTMEnergy)
    assert built["first"].config.pooling == "first"
    counts = count_parameters(recipe)
    assert {name: counts[name] for name in ENERGIES} == {name: num_parameters(built[name]) for name in ENERGIES}


def test_the_objective_is_part_of_the_stage(trained):
    _, folder, _ = trained
    assert json.loads((folder / "ranked" / "stage.json").read_text())["config"]["objective"]["loss"] == "ranking"


def test_the_report_tells_what_they_are(trained):
    _, _, result = trained
    assert "bidirectional LSTMs" in render_page(result)
