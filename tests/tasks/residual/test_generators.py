"""Generators trained from scratch: right to left, and by gated convolutions."""

import math
from functools import partial

import pytest

from lexergy.errors import LexergyError
from lexergy.models.architectures.gated_conv import GatedConvForCausalLM
from lexergy.models.causal.lm import CausalLM
from lexergy.models.causal.product_lm import num_parameters
from lexergy.models.causal.right_to_left import RightToLeftLM
from lexergy.recipes.residual import ResidualRecipe
from lexergy.runs.workspace import open_workspace
from lexergy.tasks.residual.base_models import build_tokenizer, build_windows, train_lm
from lexergy.tasks.residual.context import RunContext
from lexergy.tasks.residual.parameters import count_parameters
from lexergy.tasks.residual.run import run
from toys.recipes import TRAINING, residual_recipe

CONV = {"architecture": "gated_conv", "hidden_size": 16, "num_layers": 2, "embedding_size": 8, "max_length": 32}
LONGER = TRAINING | {"max_steps": 100, "evaluate_every": 50, "checkpoint_every": 100}


def recipe_of(corpus, **lm) -> ResidualRecipe:
    return ResidualRecipe.model_validate(
        residual_recipe(corpus, lm={"train": CONV | {"vocab_size": 300, "training": LONGER} | lm}, masked_lm=None)
        | {"energies": {"unit": {"kind": "unit", "pairs": 20, "training": TRAINING}}, "generation": None}
    )


def test_a_right_to_left_lm_learns_to_read_from_the_right(tiny_corpus, tmp_path):
    context = RunContext(recipe_of(tiny_corpus, direction="right_to_left"), tmp_path)
    with open_workspace(tmp_path, seed=0, progress=False) as workspace:
        tokenizer = workspace.stage("tokenizer", {}, [], partial(build_tokenizer, context))
        workspace.stage("windows", {}, [tokenizer], partial(build_windows, context))
        facts = workspace.stage("lm", {}, [tokenizer], partial(train_lm, context)).facts
    lm, windows = RightToLeftLM.from_pretrained(tmp_path / "lm"), context.windows["test"].tokens
    right, wrong = (lm.log_prob(tokens, suffix_length=5).mean() for tokens in (windows, windows.flip(1)))
    assert float(right) > float(wrong) + 1
    per_token = -lm.token_log_prob(windows, suffix_length=5).mean()
    assert float(per_token) == pytest.approx(facts["validation"]["loss"], abs=0.5)
    assert lm.lm.forbidden_tokens == (0, 1, 2)


def test_a_run_on_gated_convolutions(tiny_corpus, tmp_path):
    recipe = recipe_of(tiny_corpus)
    result = run(recipe, tmp_path / "run", progress=False)
    assert math.isfinite(result.energies["unit"].perplexity.upper)
    lm = CausalLM.from_pretrained(tmp_path / "run" / "lm")
    assert isinstance(lm.model, GatedConvForCausalLM)
    assert count_parameters(recipe)["lm"] == num_parameters(lm.model)


def test_a_run_goes_on_to_the_right(tiny_corpus, tmp_path):
    with pytest.raises(LexergyError, match=r"right_to_left; expected left_to_right"):
        run(recipe_of(tiny_corpus, direction="right_to_left"), tmp_path / "run", progress=False)
    assert not (tmp_path / "run").exists()
