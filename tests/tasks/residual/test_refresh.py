"""Energies trained on against negatives of their own joint model (dynamic NCE)."""

import dataclasses
import shutil

import pytest
import torch

from lexergy.models.energies import EnergyModel
from lexergy.recipes.energies import RefreshedEnergyRecipe
from lexergy.recipes.residual import ResidualRecipe
from lexergy.recipes.training import TrainingRecipe
from lexergy.runs.records import load_run
from lexergy.runs.stages import read_stage
from lexergy.runs.workspace import OpenStage
from lexergy.tasks.residual.context import RunContext
from lexergy.tasks.residual.negatives import contrastive_data
from lexergy.tasks.residual.refresh import refresh_negatives
from lexergy.tasks.residual.run import run
from lexergy.training.objectives.contrastive import pair_energies
from toys.recipes import ENERGIES, TRAINING, residual_recipe

SHORT = TRAINING | {"max_steps": 4}
REFRESHED = {
    "again": {"kind": "refreshed", "of": "states", "candidates": 8, "training": SHORT},
    "twice": {"kind": "refreshed", "of": "again", "candidates": 8, "training": SHORT},
    "adapted": {"kind": "refreshed", "of": "unit", "noise": "lm", "pairs": 30, "training": SHORT},
}


@pytest.fixture
def context(finished_run, tiny_recipe) -> RunContext:
    return RunContext(tiny_recipe, finished_run)


def refreshed(context, folder, **changes):
    settings = REFRESHED["again"] | {"training": TrainingRecipe(**SHORT)} | changes
    recipe = RefreshedEnergyRecipe(**settings)
    negatives = read_stage(context.folder / "negatives")
    features = context.energy(recipe.of).features
    parts = contrastive_data(context, negatives, features)
    stage = OpenStage("again", folder, seed=5, key="", progress=False)
    return parts, refresh_negatives(context, recipe, list(parts), stage)


def test_noise_energies_are_those_of_the_old_joint_model(context, tmp_path):
    """log P_LM - log P_noise = E_old + log Z, so that the old energy itself is worth the same on both sides."""
    old_parts, new_parts = refreshed(context, tmp_path)
    energy = context.energy("states").attach(context.lm).eval()
    for old, new in zip(old_parts, new_parts, strict=True):
        assert new.negatives.shape == (len(old), 1, 5)
        assert torch.equal(new.continuations, old.continuations)
        over_noise = pair_energies(energy, new)  # -log Z, (N, 2)
        torch.testing.assert_close(over_noise[:, 0], over_noise[:, 1], atol=1e-5, rtol=0)
        assert over_noise.std() > 0
        again = context.lm.state_features(
            torch.cat((new.prefixes, new.negatives[:, 0]), 1), prefix_length=6, features=energy.features
        )
        torch.testing.assert_close(new.negative_features[:, 0], again, atol=1e-4, rtol=1e-4)


def test_joint_negatives_have_lower_energy_than_the_lms(tiny_recipe, finished_run, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(finished_run, folder)
    energy = EnergyModel.from_pretrained(folder / "states").eval()
    with torch.no_grad():
        energy.head[-1].weight.mul_(100)  # a few steps of training leave it too small to matter
    energy.save_pretrained(folder / "states")
    means = {}
    for noise in ("joint", "lm"):
        context = RunContext(tiny_recipe, folder)
        _, (train, _) = refreshed(context, tmp_path / noise, noise=noise, candidates=32)
        assert (train.noise_energies is None) == (noise == "lm")
        plain = dataclasses.replace(train, noise_energies=None)
        means[noise] = pair_energies(energy.attach(context.lm), plain)[:, 1].mean()
    assert means["joint"] < means["lm"] - 0.5


def test_a_run_trains_on_and_measures_all(tiny_corpus, finished_run, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(finished_run, folder)
    recipe = ResidualRecipe.model_validate(residual_recipe(tiny_corpus, energies=ENERGIES | REFRESHED, generation=None))
    before = {name: read_stage(finished_run / name).key for name in ("negatives", "states", "unit")}
    run(recipe, folder, progress=False)
    assert {name: read_stage(folder / name).key for name in before} == before
    result = load_run(folder)
    assert set(REFRESHED) < set(result.energies)
    for name, settings in REFRESHED.items():
        old, new = (EnergyModel.from_pretrained(folder / part).state_dict().values() for part in (settings["of"], name))
        assert any(not torch.equal(a, b) for a, b in zip(old, new, strict=True)), name


@pytest.mark.parametrize("of", ["nothing", "total", "later"])
def test_only_energies_named_before_can_be_trained_on(tiny_corpus, of):
    energies = {
        "total": {"kind": "sum", "of": ["states"]},
        "states": ENERGIES["states"],
        "again": REFRESHED["again"] | {"of": of},
        "later": ENERGIES["unit"],
    }
    with pytest.raises(ValueError, match=f"trained on from `{of}`; expected one of states named before it"):
        ResidualRecipe.model_validate(residual_recipe(tiny_corpus, energies=energies))
