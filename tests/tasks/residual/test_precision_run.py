"""A run on an LM in bfloat16 or int8, with a residual, an energy on its states: one LM in all its stages."""

import json
from pathlib import Path

import pytest

from lexergy.models.causal.runtimes.openvino_steps import computes_in
from lexergy.recipes.residual import ResidualRecipe
from lexergy.report.pages.run import render_page
from lexergy.runs.records import load_run
from lexergy.tasks.residual.context import RunContext
from lexergy.tasks.residual.run import run
from toys.recipes import TRAINING, residual_recipe

FIT = {"tokens": 300, "validation_tokens": 200, "share": 0.6}
STATES = {"kind": "states", "layers": [0, 1], "training": TRAINING | {"max_steps": 4}}
ADAPTER = {"kind": "adapter", "rank": 2, "training": TRAINING | {"max_steps": 6, "evaluate_every": 2}}


def recipe(texts: Path, source: Path, **precision) -> ResidualRecipe:
    lm = {"source": str(source), "residual": ["unigram", ADAPTER], "residual_fit": FIT, **precision}
    content = residual_recipe(texts, lm=lm, masked_lm=None, energies={"energy": STATES}, generation=None)
    return ResidualRecipe.model_validate(content | {"perplexity": {"samples": 20, "windows": 8}})


@pytest.fixture(scope="module", params=["bfloat16", "int8"])
def precision(request) -> str:
    if not computes_in(request.param):
        pytest.skip(f"the processor has no products of {request.param}")
    return request.param


@pytest.fixture(scope="module")
def folders(precision, finished_run, tiny_corpus, tmp_path_factory) -> dict[str, Path]:
    made = {}
    for name in ("float32", precision):
        made[name] = tmp_path_factory.mktemp("runs") / name
        run(recipe(tiny_corpus, finished_run / "lm", precision=name), made[name], progress=False)
    return made


def test_all_stages_have_keys_of_their_own(precision, folders, finished_run, tiny_corpus):
    stages = {name: json.loads((folder / "run.json").read_text())["stages"] for name, folder in folders.items()}
    for stage in ("lm", "residual_adapter", "negatives", "energy", "perplexity"):
        assert stages["float32"][stage] != stages[precision][stage], stage
    usual = recipe(tiny_corpus, finished_run / "lm")
    assert usual.plain() == recipe(tiny_corpus, finished_run / "lm", precision="float32").plain()


def test_the_lm_is_in_that_precision_wherever_the_run_opens_it(precision, folders):
    context = RunContext(load_run(folders[precision]).recipe, folders[precision])
    for lm in (context.lm, context.frozen_lm, context.corrected_lm("unigram")):
        assert lm.precision == precision
        assert f"in {precision}" in lm.name
    assert f"in {precision}" in render_page(load_run(folders[precision]))
    assert precision not in render_page(load_run(folders["float32"]))


def test_the_perplexity_is_that_of_the_lm_that_drew(precision, folders):
    result = load_run(folders[precision])
    context = RunContext(result.recipe, folders[precision])
    windows = context.test_windows
    lengths = windows.tokens.shape[1] - windows.prefix_length
    log_prob = context.lm.log_prob(windows.tokens[:8], prefix_length=windows.prefix_length)
    assert result.estimates["energy"].base == pytest.approx(float((-log_prob.mean() / lengths).exp()), rel=1e-6)
