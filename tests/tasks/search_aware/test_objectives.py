import math

import pytest
import torch

from lexergy.core.search_aware.beam_search import beam_search
from lexergy.data.vocabulary import build_vocabulary
from lexergy.errors import LexergyError
from lexergy.recipes.search_aware import (
    AnnealingRecipe,
    BeamCrfRecipe,
    BeamSearchOptimisationRecipe,
    CrossEntropyRecipe,
    LearningRecipe,
    ScheduledRecipe,
    SearchRecipe,
    SoftBeamRecipe,
)
from lexergy.tasks.search_aware.objectives import sequence_objective, symbol_weights
from toys.search_aware import toy_training, toy_validation, trained_toy
from toys.seq2seq import toy_tagger

LEARNING = LearningRecipe(epochs=1, learning_rate=0.01)
SOFT = AnnealingRecipe(first=1.0, last=5.0)
RECIPES = {
    "scheduled, hard": ScheduledRecipe(learning=LEARNING, mixing_steps=10),
    "scheduled, soft": ScheduledRecipe(learning=LEARNING, mixing="linear", mixing_steps=30, alpha=SOFT),
    "scheduled, Gumbel": ScheduledRecipe(learning=LEARNING, mixing="exponential", alpha=SOFT, sampled=True),
    "direct": SoftBeamRecipe(learning=LEARNING, beam=2, alpha=SOFT, candidates=4),
    "hinge": SoftBeamRecipe(learning=LEARNING, beam=2, loss="hinge", candidates=None),
    "direct, global": SoftBeamRecipe(learning=LEARNING, beam=2, normalisation="global"),
    "beam-crf": BeamCrfRecipe(learning=LEARNING, beam=2),
    "bso": BeamSearchOptimisationRecipe(learning=LEARNING, beam=2),
}


@pytest.fixture(params=RECIPES)
def recipe(request):
    return RECIPES[request.param]


def objective_of(recipe, tagger, steps=40):
    tagger.model.config.normalisation = recipe.normalisation
    validation = toy_validation(tagger, SearchRecipe(beam=recipe.beam))
    return sequence_objective(recipe, toy_training(tagger), validation, tagger.vocabulary.outputs, steps)


def generator():
    return torch.Generator().manual_seed(5)


def test_every_objective_lowers_its_loss(recipe, tmp_path):
    tagger = toy_tagger()
    objective = objective_of(recipe, tagger)
    every = torch.arange(objective.num_examples)
    objective.begin(40)
    before = objective.loss(tagger.model, every, generator())[0].item()
    result = trained_toy(tagger, objective, tmp_path)
    assert objective.loss(tagger.model, every, generator())[0].item() < 0.7 * before
    assert result.validation["accuracy"] > result.history[0].validation["accuracy"]


def test_sizes_of_batches_change_no_loss(recipe, monkeypatch):
    tagger = toy_tagger(dropout=0.3)
    tagger.model.double()
    objective = objective_of(recipe, tagger)
    objective.begin(10)
    indices = torch.arange(20, 44)
    together = objective.loss(tagger.model, indices, generator())[0].item()
    monkeypatch.setattr(objective, "rows_together", 5)
    halves = [objective.loss(tagger.model, part, generator())[0].item() for part in indices.split(12)]
    assert sum(halves) / 2 == pytest.approx(together, rel=1e-9)


def test_the_direct_loss_becomes_the_share_of_wrong_labels():
    tagger = toy_tagger()
    tagger.model.double()
    recipe = SoftBeamRecipe(learning=LEARNING, beam=2, alpha=AnnealingRecipe(first=1e7), candidates=None)
    objective = objective_of(recipe, tagger)
    pairs = objective.train
    decoded = beam_search(tagger.model.decoder(pairs.sources), 2).symbols[:, 0]
    wrong = int(((decoded != pairs.gold) & (pairs.gold >= 0)).sum())
    loss = objective.loss(tagger.model, torch.arange(len(pairs)), generator())[0].item()
    assert loss == pytest.approx(wrong / int(pairs.lengths.sum()), abs=1e-3)


@pytest.mark.parametrize(
    ("mixing", "expected"),
    [("inverse-sigmoid", 50 / (50 + math.e)), ("linear", 0.0), ("exponential", math.exp(-1))],
)
def test_mixing_is_counted_in_steps(mixing, expected):
    recipe = ScheduledRecipe(learning=LEARNING, mixing=mixing, mixing_steps=50)
    objective = objective_of(recipe, toy_tagger())
    assert objective.settings()["mixing"] > 0.98
    objective.begin(50)
    assert objective.settings()["mixing"] == pytest.approx(expected)
    unspoken = objective_of(recipe.model_copy(update={"mixing_steps": None}), toy_tagger(), steps=500)
    unspoken.begin(50)
    assert unspoken.settings() == objective.settings()


def test_gold_alone_is_cross_entropy_and_samples_are_the_sentence_s_own(monkeypatch):
    tagger = toy_tagger()
    tagger.model.double()
    indices = torch.arange(24)
    losses = {}
    for name, recipe in {"gold": RECIPES["scheduled, hard"], "own": RECIPES["scheduled, Gumbel"]}.items():
        objective = objective_of(recipe, tagger)
        monkeypatch.setattr(objective, "mixing", lambda step, steps, name=name: float(name == "gold"))
        losses[name] = objective.loss(tagger.model, indices, generator())[0].item()
    plain = objective_of(CrossEntropyRecipe(learning=LEARNING), tagger)
    assert losses["gold"] == pytest.approx(plain.loss(tagger.model, indices, generator())[0].item(), rel=1e-9)
    assert losses["own"] != pytest.approx(losses["gold"], rel=1e-3)


def test_alpha_anneals_over_the_training():
    objective = objective_of(RECIPES["direct"], toy_tagger(), steps=10)
    alphas = []
    for step in (0, 5, 10, 20):
        objective.begin(step)
        alphas.append(objective.settings()["alpha"])
    assert alphas == pytest.approx([1.0, 5**0.5, 5.0, 5.0])


def test_a_wrong_label_may_cost_double():
    outputs = build_vocabulary(["O", "B-X", "O"])
    assert symbol_weights({"O": 2.0}, outputs).tolist() == [2.0, 1.0]
    assert symbol_weights({}, outputs) is None
    with pytest.raises(LexergyError, match="names B-Y; expected labels"):
        symbol_weights({"B-Y": 2.0}, outputs)


def test_a_killed_soft_beam_training_ends_with_the_same_weights(tmp_path):
    def trained(folder, kill_at=None):
        tagger = toy_tagger(dropout=0.2)
        objective = objective_of(RECIPES["direct"], tagger)
        return trained_toy(tagger, objective, folder, kill_at=kill_at, max_steps=12), tagger.model.state_dict()

    _, whole = trained(tmp_path / "whole")
    trained(tmp_path / "killed", kill_at=9)
    _, resumed = trained(tmp_path / "killed")
    assert all(torch.equal(weight, resumed[name]) for name, weight in whole.items())
