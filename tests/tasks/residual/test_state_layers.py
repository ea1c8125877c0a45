"""Energies on different layers in one recipe, on a part of the pairs, and their sum; what was finished stays so."""

import json
import math
import shutil
from pathlib import Path

import pyarrow.parquet as parquet
import pytest
import torch

from lexergy.core.losses import nce_loss
from lexergy.errors import LexergyError
from lexergy.files import hash_of
from lexergy.models.causal.lm import CausalLM
from lexergy.models.causal.state_features import STATISTICS, StateFeatures, union
from lexergy.models.energies import EnergyModel
from lexergy.models.joint.model import ResidualEBM
from lexergy.recipes.loader import load_recipe
from lexergy.recipes.residual import ResidualRecipe
from lexergy.runs.columns import from_column
from lexergy.runs.records import load_run
from lexergy.runs.stages import read_stage, stage_seed
from lexergy.tasks.residual.context import RunContext
from lexergy.tasks.residual.energies import fit_sum
from lexergy.tasks.residual.evaluate import evaluate
from lexergy.tasks.residual.negatives import contrastive_data, features_key
from lexergy.tasks.residual.run import run
from lexergy.training.objectives.contrastive import pair_energies
from toys.kills import killed_when_done
from toys.recipes import TRAINING, TRANSFORMER, residual_recipe

LAYERS = {"low": [0], "all": [0, 1, 2], "high": [2], "statistics": []}
FASTER = TRAINING | {"max_steps": 8}
LM_KEY, NEGATIVES_KEY, ENERGY_KEY = "11f6667ed81b2f80", "99e5e66f2245a6ce", "a17d6d82662ad450"


def energies(**changes) -> dict:
    found = {name: {"kind": "states", "layers": layers, "training": FASTER} for name, layers in LAYERS.items()}
    # Named before its parts: the order of the recipe does not matter.
    return {"total": {"kind": "sum", "of": ["low", "high", "unit"]}} | found | changes


def states_recipe(corpus, **changes) -> ResidualRecipe:
    lm = {"train": {"vocab_size": 300, **TRANSFORMER, "num_layers": 2}}
    others = {
        "unit": {"kind": "unit", "lora": {"rank": 1}, "training": FASTER},
        "fitted": {"kind": "fitted_states", "layers": [1, 2], "folds": 2, "state_penalties": [0.1, 1.0]},
    }
    content = residual_recipe(corpus, lm=lm, masked_lm=None, energies=energies(**others))
    content["generation"] |= {"prompts": ["the people shall"]}
    return ResidualRecipe.model_validate(content | changes)


@pytest.fixture(scope="module")
def summed(tiny_corpus, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "states"
    run(states_recipe(tiny_corpus), folder, progress=False)
    return folder


# -- layers --------------------------------------------------------------------------------------------------


def test_union_of_layers(tiny_corpus, tmp_path):
    assert RunContext(states_recipe(tiny_corpus), tmp_path).features == StateFeatures((0, 1, 2))
    assert RunContext(load_recipe("from-scratch", ResidualRecipe), tmp_path).features is None
    assert union([None, StateFeatures((4, 1)), StateFeatures((2, 4))]) == StateFeatures((1, 2, 4))
    assert union([StateFeatures((4, 1)), StateFeatures((4, 1))]) == StateFeatures((4, 1))  # as it is stored
    assert union([StateFeatures(()), None]) == StateFeatures(())
    assert union([None]) is None


def test_pick_finds_its_own_columns():
    wider, width = StateFeatures((1, 2, 5)), 3
    features = torch.arange(2 * wider.size(width)).view(2, -1)  # (2, 3 * 3 + 8)
    statistics = list(range(9, 17))
    assert StateFeatures((5, 1)).pick(features, wider)[0].tolist() == [6, 7, 8, 0, 1, 2, *statistics]
    assert StateFeatures((2,)).pick(features[None], wider)[0, 1].tolist() == [20, 21, 22, *(17 + i for i in statistics)]
    assert StateFeatures(()).pick(features, wider)[0].tolist() == statistics
    assert wider.pick(features, wider) is features


def test_statistics_alone_are_those_beside_the_states(summed):
    lm = CausalLM.from_pretrained(summed / "lm")
    prefix = torch.tensor([[5, 6, 7], [9, 8, 30]])
    drawn = {
        layers: lm.sample(prefix, num_samples=3, max_new_tokens=4, features=StateFeatures(layers))
        for layers in ((), (1,))
    }
    assert torch.equal(drawn[()].features, drawn[(1,)].features[..., -len(STATISTICS) :])
    assert torch.equal(drawn[()].tokens, drawn[(1,)].tokens)
    for length in (1, 4):
        rows = torch.cat([prefix, drawn[()].tokens[:, 0, :length]], 1)
        alone, beside = (
            lm.state_features(rows, prefix_length=3, features=StateFeatures(layers)) for layers in ((), (1,))
        )
        torch.testing.assert_close(alone, beside[:, -len(STATISTICS) :])


@pytest.mark.parametrize("name", ["low", "high", "statistics", "all"])
def test_each_energy_reads_its_own_layers(summed, tiny_corpus, name):
    energy, lm = EnergyModel.from_pretrained(summed / name), CausalLM.from_pretrained(summed / "lm")
    assert energy.features == StateFeatures(tuple(LAYERS[name]))
    context = RunContext(states_recipe(tiny_corpus), summed)
    stage = read_stage(summed / "negatives")
    data, _ = contrastive_data(context, stage, energy.features)
    rows = torch.cat([data.prefixes, data.continuations], 1)
    expected = lm.state_features(rows, prefix_length=6, features=energy.features)
    torch.testing.assert_close(data.features, expected, rtol=1e-4, atol=1e-4)
    # The weights in the perplexity stage are those of the energy on features computed for it alone.
    shards = [parquet.read_table(path) for path in sorted((summed / "perplexity" / "weights").glob("*.parquet"))]
    stored = torch.from_numpy(from_column(shards[0].column(f"human_energy.{name}")))
    windows = context.windows["test"].sample(10, read_stage(summed / "perplexity").seed)
    alone = ResidualEBM(lm, energy).score_texts(windows.prefixes, windows.continuations)
    torch.testing.assert_close(stored, alone[: len(stored)].double(), rtol=1e-4, atol=1e-4)
    assert stored.std() > 0


# -- pairs ---------------------------------------------------------------------------------------------------


def test_pairs_are_nested_and_random(tiny_corpus, summed, tmp_path, monkeypatch):
    """The rows that three energies are trained on, as seen by the training itself."""
    seen = {}

    def spy(stage, energy, objective, recipe, **kwargs):
        seen[kwargs["label"]] = objective
        raise KeyboardInterrupt

    monkeypatch.setattr("lexergy.tasks.residual.energies.train_into", spy)
    for pairs in (10, 25, None):
        folder = Path(shutil.copytree(summed, tmp_path / str(pairs)))
        energy = {"kind": "states", "layers": [0, 1, 2], "pairs": pairs, "training": FASTER}
        with pytest.raises(KeyboardInterrupt):
            run(states_recipe(tiny_corpus, energies={f"n{pairs}": energy}), folder, progress=False)
    few, more, every = (seen[f"n{pairs}"].train for pairs in (10, 25, None))
    assert [len(data) for data in (few, more, every)] == [10, 25, 70]
    order = torch.randperm(70, generator=torch.Generator().manual_seed(stage_seed(3, "pairs")))
    for data in (few, more):
        rows = order[: len(data)]
        for name in ("prefixes", "continuations", "negatives", "features", "negative_features"):
            assert torch.equal(getattr(data, name), getattr(every, name)[rows]), name
    assert len(seen["n10"].validation) == 20


def test_more_pairs_than_windows_are_refused_before_anything_is_sampled(tiny_corpus, tmp_path, finished_run):
    lm = {"source": str(finished_run / "lm")}
    energy = {"kind": "states", "layers": [1], "pairs": 71, "training": FASTER}
    with pytest.raises(LexergyError, match=r"`e` asks for 71 pairs; expected at most 70"):
        run(states_recipe(tiny_corpus, lm=lm, energies={"e": energy}), tmp_path / "run", progress=False)
    assert not (tmp_path / "run" / "negatives").exists()


# -- the sum -------------------------------------------------------------------------------------------------


def test_the_sum_is_at_the_optimum_of_the_validation_pairs(summed, tiny_corpus):
    context = RunContext(states_recipe(tiny_corpus), summed)
    negatives, stage = read_stage(summed / "negatives"), read_stage(summed / "total")
    total = EnergyModel.from_pretrained(summed / "total").attach(context.lm)
    assert total.features == StateFeatures((0, 2))
    _, validation = contrastive_data(context, negatives, total.features)
    whole = pair_energies(total, validation)  # (N, 1 + K)
    loss = float(nce_loss(whole[:, 0], whole[:, 1:]))
    assert loss == pytest.approx(stage.facts["validation"]["loss"], abs=1e-5)
    parts = []
    for name in ("low", "high", "unit"):
        part = EnergyModel.from_pretrained(summed / name).attach(context.lm)
        _, theirs = contrastive_data(context, negatives, part.features)
        parts.append(pair_energies(part, theirs))
        assert loss <= read_stage(summed / name).facts["validation"]["loss"] + 1e-3  # the prior is weak
    coefficients = [stage.facts["coefficients"][name] for name in ("low", "high", "unit")]
    expected = stage.facts["constant"] + sum(c * part for c, part in zip(coefficients, parts, strict=True))
    torch.testing.assert_close(whole, expected, rtol=1e-4, atol=1e-4)


def test_a_run_with_a_sum_is_measured_shown_and_moved(summed, tmp_path):
    result = load_run(summed)
    assert list(result.seconds)[-4:] == ["total", "perplexity", "sums", "samples"]
    assert list(result.energies) == ["total", *LAYERS, "unit", "fitted"]
    assert math.isfinite(result.energies["total"].perplexity.upper)
    assert result.energies["total"].history == ()
    moved = Path(shutil.copytree(summed, tmp_path / "moved"))
    lm = CausalLM.from_pretrained(moved / "lm")
    here, there = (EnergyModel.from_pretrained(folder / "total") for folder in (summed, moved))
    assert [Path(part).parent.name for part in there.config.parts] == ["moved"] * 3
    one, other = (ResidualEBM(lm, energy).generate("the people", 20, 5) for energy in (here, there))
    assert torch.equal(one.log_weights, other.log_weights)


def test_a_killed_fit_begins_again_to_the_same_sum(summed, tiny_corpus, tmp_path, monkeypatch):
    folder = Path(shutil.copytree(summed, tmp_path / "run"))
    shutil.rmtree(folder / "total")
    monkeypatch.setattr("lexergy.tasks.residual.run.fit_sum", killed_when_done(fit_sum))
    with pytest.raises(KeyboardInterrupt):
        run(states_recipe(tiny_corpus), folder, progress=False)
    monkeypatch.undo()
    run(states_recipe(tiny_corpus), folder, progress=False)
    for name in ("config.json", "model.safetensors"):
        assert (folder / "total" / name).read_bytes() == (summed / "total" / name).read_bytes()
    assert read_stage(folder / "total").facts == read_stage(summed / "total").facts


def test_a_sum_is_measured_from_its_parts(summed):
    """The energies that the stage `sums` puts together are those that the sum itself gives the same texts."""
    result = load_run(summed)
    context = RunContext(result.recipe, summed)
    fresh = evaluate(
        context.lm, {"total": context.energy("total")}, context.test_windows, 40, read_stage(summed / "perplexity").seed
    )["total"]
    stored = result.energies["total"].perplexity
    assert (stored.lower, stored.upper) == pytest.approx((fresh.lower, fresh.upper), rel=1e-5)
    assert stored.upper != pytest.approx(result.energies["low"].perplexity.upper, rel=1e-5)


@pytest.mark.parametrize("of", [["nobody"], ["total"], ["low", "low"], ["low", "total"]])
def test_a_sum_is_of_other_energies(tiny_corpus, of):
    with pytest.raises(ValueError, match=r"`total` is a sum of .*; expected some of low, all, high, statistics, each"):
        states_recipe(tiny_corpus, energies=energies(total={"kind": "sum", "of": of}))


# -- the fitted head -----------------------------------------------------------------------------------------


def test_a_fitted_head_is_the_best_of_its_penalties_on_all_pairs(summed, tiny_corpus):
    """The loss that is told is of documents held out; the weights are at the optimum over all pairs."""
    context, facts = RunContext(states_recipe(tiny_corpus), summed), read_stage(summed / "fitted").facts
    assert facts["pairs"] == 90  # of training and of validation
    tried = {(trial["states"], trial["statistics"]): trial["loss"] for trial in facts["tried"]}
    assert len(tried) == 4
    best = (facts["penalties"]["states"], facts["penalties"]["statistics"])
    assert tried[best] == min(tried.values()) == facts["validation"]["loss"]
    assert facts["learning_curve"]["1.0"] == pytest.approx(tried[best], rel=1e-5)
    energy = EnergyModel.from_pretrained(summed / "fitted")
    both = contrastive_data(context, read_stage(summed / "negatives"), energy.features)
    features = torch.cat([torch.cat([data.features[:, None], data.negative_features], 1) for data in both])
    weight = energy.head[-1].weight.detach().squeeze(0).double().requires_grad_()
    energies = energy.standardised(features).double() @ weight + energy.head[-1].bias.double()
    (gradient,) = torch.autograd.grad(nce_loss(energies[:, 0], energies[:, 1:]), weight)
    penalty = torch.full_like(weight, best[0])
    penalty[-len(STATISTICS) :] = best[1]
    torch.testing.assert_close(gradient, -penalty * weight, atol=1e-4, rtol=0)
    result = load_run(summed).energies["fitted"]
    assert result.best_validation == facts["validation"]
    assert math.isfinite(result.perplexity.upper)


def test_another_kind_of_statistics_is_another_set_of_negatives(tiny_corpus, tmp_path):
    keys = []
    for statistics in ("summary", "moments"):
        head = {"kind": "fitted_states", "layers": [1], "statistics": statistics}
        context = RunContext(states_recipe(tiny_corpus, energies={"fitted": head}), tmp_path)
        assert context.features == StateFeatures((1,), statistics)
        keys.append(features_key(context.features))
    assert keys == [{"layers": [1]}, {"layers": [1], "statistics": "moments"}]


# -- stage keys ----------------------------------------------------------------------------------------------


def test_keys_of_runs_made_before_these_recipes_could_do_more():
    """As in the manifests of a quickstart made with the first version; a new key must not change them."""
    plain = load_recipe("energy-alone", ResidualRecipe).plain()

    def key(stage: str, config: dict, **built_from: str) -> str:
        return hash_of({"stage": stage, "config": config, "seed": stage_seed(0, stage), "built_from": built_from})

    assert key("lm", plain["lm"] | {"content": None}) == LM_KEY
    assert key("energy", plain["energies"]["energy"], negatives=NEGATIVES_KEY) == ENERGY_KEY
    assert "pairs" not in json.dumps(plain)
    changed = load_recipe("energy-alone", ResidualRecipe).model_dump(mode="json", by_alias=True)
    changed["energies"]["energy"]["pairs"] = 100
    assert ResidualRecipe.model_validate(changed).plain()["energies"]["energy"]["pairs"] == 100
