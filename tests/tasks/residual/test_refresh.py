"""Energies trained on against negatives of their own joint model (dynamic NCE)."""

import dataclasses
import json
import math
import shutil
from functools import cached_property

import pytest
import torch

from lexergy.models.energies import EnergyModel
from lexergy.models.joint.model import ResidualEBM
from lexergy.recipes.residual import ResidualRecipe
from lexergy.recipes.sections.energies import RefreshedEnergyRecipe
from lexergy.recipes.sections.training import TrainingRecipe
from lexergy.runs.records import load_run
from lexergy.runs.stages import read_stage
from lexergy.runs.workspace import OpenStage
from lexergy.tasks.residual.context import RunContext
from lexergy.tasks.residual.negatives import contrastive_data
from lexergy.tasks.residual.refresh import refresh_negatives
from lexergy.tasks.residual.run import run
from lexergy.testing import EnumerableLM, TableEnergy, exact_log_prob
from lexergy.training.objectives.contrastive import ContrastiveData, pair_energies
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


def test_negatives_come_with_their_features(context, tmp_path):
    old_parts, new_parts = refreshed(context, tmp_path)
    energy = context.energy("states").attach(context.lm).eval()
    for old, new in zip(old_parts, new_parts, strict=True):
        assert new.negatives.shape == (len(old), 1, 5)
        assert torch.equal(new.continuations, old.continuations)
        again = context.lm.state_features(
            torch.cat((new.prefixes, new.negatives[:, 0]), 1), prefix_length=6, features=energy.features
        )
        torch.testing.assert_close(new.negative_features[:, 0], again, atol=1e-4, rtol=1e-4)


class OnePrefix:
    """An LM that can be enumerated and an energy that differs much from it, in place of those of a run."""

    vocab_size, prefix = 7, torch.tensor([1])

    def __init__(self) -> None:
        self.lm, self.table = EnumerableLM(self.vocab_size, sharpness=4.0), TableEnergy(length=2, scale=2.0)
        self.log_prob = exact_log_prob(self.lm, self.prefix, 1)  # (V,)

    def joint(self, name: str) -> ResidualEBM:
        return ResidualEBM(self.lm, self.table)

    @cached_property
    def sampler_prob(self) -> torch.Tensor:  # (V,)
        """Each token's probability when one of two candidates is kept by its weight."""
        every_token = torch.arange(self.vocab_size)[None, :, None]  # (1, V, 1)
        prob, weight = self.log_prob.exp(), (-self.joint("old").energy.score(self.prefix[None], every_token)[0]).exp()
        kept = weight[:, None] / (weight[:, None] + weight)  # (V, V)
        return 2 * prob * (kept @ prob)


@pytest.fixture(scope="module")
def toy() -> OnePrefix:
    return OnePrefix()


@pytest.fixture(scope="module")
def toy_pairs(toy, tmp_path_factory) -> ContrastiveData:
    """A thousand texts of each token: p_data is uniform."""
    people = torch.arange(toy.vocab_size).repeat(1000)  # (N,)
    old = ContrastiveData(toy.prefix.expand(len(people), 1), people[:, None], people[:, None, None])
    recipe = RefreshedEnergyRecipe(**REFRESHED["again"] | {"candidates": 2, "training": TrainingRecipe(**SHORT)})
    stage = OpenStage("again", tmp_path_factory.mktemp("again"), seed=5, key="", progress=False)
    return refresh_negatives(toy, recipe, [old], stage)[0]


def z_scores(rows):  # (N, V) -> (V,)
    return rows.mean(0) / (rows.std(0) / len(rows) ** 0.5)


def test_people_meet_the_samplers_own_density(toy, toy_pairs):
    """P_LM exp(-E_noise), averaged over the candidates beside a text, is what the sampler gives to that text."""
    people = toy_pairs.continuations[:, 0]
    assumed = (toy.log_prob[people] - toy_pairs.noise_energies[:, 0]).exp()  # (N,)
    assert z_scores(assumed.view(-1, toy.vocab_size) - toy.sampler_prob).abs().max() < 4


def test_of_two_candidates_already_the_best_energy_is_that_of_the_data(toy, toy_pairs):
    """At E = log P_LM - log p_data the gradient of NCE vanishes, up to the error of its sample."""
    energy = toy.log_prob + math.log(toy.vocab_size)  # (V,)
    tokens = torch.cat((toy_pairs.continuations, toy_pairs.negatives[:, 0]), 1)  # (N, 2)
    over_noise = energy[tokens] - toy_pairs.noise_energies
    slopes = over_noise.sigmoid() - torch.tensor([0.0, 1.0])  # of softplus(E+) + softplus(-E-)
    gradient = torch.zeros(len(tokens), toy.vocab_size, dtype=torch.double).scatter_add_(1, tokens, slopes)
    assert z_scores(gradient).abs().max() < 4


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
    configs = {name: json.loads((folder / name / "stage.json").read_text())["config"] for name in REFRESHED}
    assert {name for name, config in configs.items() if "revision" in config} == {"again", "twice"}
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
