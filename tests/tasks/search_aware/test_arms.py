"""Arms: their names, what they share, what is chosen, and the cost of their steps."""

import pytest

from lexergy.core.search_aware.scheduled_sampling import inverse_sigmoid
from lexergy.recipes.loader import load_recipe
from lexergy.recipes.search_aware import SearchAwareRecipe, SearchRecipe
from lexergy.studies.search_aware.comparison import controls, soft_beam, tuned
from lexergy.studies.search_aware.scheduled import mixed
from lexergy.tasks.search_aware.arms import arm, open_arms, search_name
from toys.search_studies import SETTINGS, toy_recipe

TAGGING = load_recipe("tagging-cpu", SearchAwareRecipe)


def test_an_arm_changes_what_it_names_and_nothing_else():
    changed = arm("soft-beam", start="self-normalised", normalisation="global", learning={"learning_rate": 0.1})
    before, after = TAGGING.objectives["soft-beam"].model_dump(), changed.recipe(TAGGING).model_dump()
    assert {key for key in before if before[key] != after[key]} == {"start", "normalisation", "learning"}
    assert {key for key in before["learning"] if before["learning"][key] != after["learning"][key]} == {"learning_rate"}
    constant = arm("soft-beam", alpha={"first": 1.0}).recipe(TAGGING).model_dump()
    assert constant["alpha"] == {"first": 1.0, "last": None}


def test_names_tell_arms_apart_and_do_not_depend_on_the_order():
    first = arm("soft-beam", beam=3).but(alpha={"first": 1.0})
    assert first == arm("soft-beam", alpha={"first": 1.0}).but(beam=3)
    assert first.name == "soft-beam-alpha-first-1.0-beam-3"
    rates = tuned(first, {"local_rates": (1e-3, 3e-5)})
    assert len({own.name for own in rates}) == 2
    assert arm("cross-entropy").name == "cross-entropy"
    assert search_name(SearchRecipe()) != search_name(SearchRecipe(normalisation="global"))


def test_each_kind_of_training_has_its_learning_rates():
    settings = {"beam": 3, "local_rates": (1.0,), "global_rates": (2.0,), "control_rates": (3.0,)}
    kinds = {
        soft_beam("cross-entropy", settings, loss="hinge"): 1.0,
        soft_beam("cross-entropy", settings, normalisation="local"): 1.0,
        soft_beam("cross-entropy", settings, normalisation="global"): 2.0,
        arm("beam-crf"): 2.0,
        arm("self-normalised", start="self-normalised"): 3.0,
    }
    for trained, rate in kinds.items():
        assert _rates(tuned(trained, settings)) == [rate]


def test_an_encoder_may_have_learning_rates_of_its_own():
    settings = {"beam": 3, "local_rates": (1.0,), "global_rates": (2.0,), "unidirectional_local_rates": (3.0, 4.0)}
    for encoder, normalisation, rates in (
        ("unidirectional", "local", [3.0, 4.0]),
        ("unidirectional", "global", [2.0]),
        ("bidirectional", "local", [1.0]),
    ):
        trained = soft_beam("cross-entropy", settings, encoder, normalisation=normalisation)
        assert _rates(tuned(trained, settings)) == rates


def _rates(arms):
    return [own.settings["learning"]["learning_rate"] for own in arms]


@pytest.fixture(scope="module")
def laboratory(tmp_path_factory):
    folder = tmp_path_factory.mktemp("arms")
    recipe = load_recipe(toy_recipe("tagging", folder), SearchAwareRecipe)
    with open_arms(recipe, folder / "run", progress=False) as opened:
        yield opened


def test_the_best_on_validation_sentences_is_taken(laboratory):
    poor = arm("cross-entropy", learning={"learning_rate": 1e-6})
    good = arm("cross-entropy")
    assert laboratory.best((poor, good)) == good
    losses = [laboratory.training(own).facts["validation"]["loss"] for own in (poor, good)]
    assert losses[1] < losses[0]


def test_encoders_share_the_data_and_not_the_weights(laboratory):
    models = [laboratory.model(arm("cross-entropy", encoder)) for encoder in ("unidirectional", "bidirectional")]
    assert [model.model.config.bidirectional for model in models] == [False, True]
    assert models[0].vocabulary.outputs == models[1].vocabulary.outputs


def test_controls_go_on_from_the_same_start(laboratory, monkeypatch):
    monkeypatch.setattr(type(laboratory), "relative_cost", lambda *_: 3.0)
    (trained,) = tuned(soft_beam("self-normalised", SETTINGS, normalisation="global"), SETTINGS)
    same, longer = (own.recipe(laboratory.recipe) for own in controls(laboratory, trained))
    assert (same.start, same.kind, same.self_normalisation) == ("self-normalised", "cross-entropy", 0.05)
    assert same.learning == trained.recipe(laboratory.recipe).learning
    assert longer.learning.epochs == pytest.approx(3 * same.learning.epochs)
    assert longer.model_copy(update={"learning": same.learning}) == same


def test_a_step_of_soft_beam_costs_more_than_one_of_cross_entropy(laboratory):
    trained = soft_beam("cross-entropy", SETTINGS)
    same, _ = controls(laboratory, trained)
    assert laboratory.relative_cost(trained, same) > 1
    assert laboratory.relative_cost(trained, same) == laboratory.relative_cost(trained, same)  # measured once


def test_a_schedule_reaches_one_half_at_its_share_of_the_training(laboratory):
    trained = arm("scheduled", learning={"epochs": 50})
    steps = laboratory.updates(trained)
    recipe = mixed(laboratory, trained, 0.75).recipe(laboratory.recipe)
    assert inverse_sigmoid(round(0.75 * steps), recipe.mixing_steps) == pytest.approx(0.5, abs=0.01)
    always = mixed(laboratory, trained, 0).recipe(laboratory.recipe)
    assert (always.mixing, always.mixing_steps) == ("linear", 1)


def test_normalisers_are_those_of_the_validation_of_the_training(laboratory):
    """The training looks at the first validation sentences with a function of its own."""
    start = arm("self-normalised")
    sums = laboratory.normalisers(start)["validation"][: laboratory.recipe.evaluation.validation_sentences].sum(0)
    told = laboratory.training(start).facts["validation"]
    mean = sums[0] / sums[2]
    assert mean == pytest.approx(told["log_z_mean"], abs=1e-5)
    assert sums[1] / sums[2] - mean**2 == pytest.approx(told["log_z_variance"], abs=1e-5)
