"""Runs whose perplexity and samples are by sequential Monte Carlo."""

import os

import pyarrow as pa
import pytest
import torch

from lexergy.core.estimation.smc import Resampling
from lexergy.recipes.residual import ResidualRecipe
from lexergy.report.pages.run import write_report
from lexergy.report.perplexity import perplexity_table, verdicts
from lexergy.runs.records import load_run
from lexergy.runs.stages import MANIFEST, read_stage
from lexergy.studies.residual.workspace import Subject, open_run
from lexergy.tasks.residual.context import RunContext
from lexergy.tasks.residual.evaluate import evaluate_again
from lexergy.tasks.residual.run import run
from lexergy.tasks.residual.steering import resampling_of
from toys.recipes import TRAINING, residual_recipe

ENERGIES = {
    "states": {"kind": "states", "layers": [1], "training": TRAINING},
    "other": {"kind": "states", "layers": [0], "training": TRAINING},
    "total": {"kind": "sum", "of": ["states", "other"]},
}
SMC = {
    "perplexity": {"samples": 4, "windows": 6, "method": "smc", "runs": 3},
    "generation": {"prompts": ["our union"], "candidates": 8, "max_new_tokens": 5, "method": "smc"},
}
PLAIN = {"perplexity": {"samples": 4, "windows": 6}, "generation": SMC["generation"] | {"method": "importance"}}


def recipe_of(corpus, **changes) -> ResidualRecipe:
    return ResidualRecipe.model_validate(residual_recipe(corpus, energies=ENERGIES, masked_lm=None) | changes)


@pytest.fixture(scope="module")
def by_smc(tiny_corpus, tmp_path_factory):
    return run(recipe_of(tiny_corpus, **SMC), tmp_path_factory.mktemp("runs") / "smc", progress=False)


@pytest.mark.parametrize("name", list(ENERGIES))
def test_the_perplexity_is_that_of_the_joint_model_by_smc(by_smc, name):
    context, found = RunContext(by_smc.recipe, by_smc.folder), by_smc.energies[name]
    stage = "sums" if name == "total" else "perplexity"
    seed = read_stage(by_smc.folder / stage).seed
    expected = context.joint(name).perplexity(context.test_windows, num_samples=4, seed=seed, method="smc", num_runs=3)
    for field in ("base", "bound", "lower", "upper", "ess", "num_ancestors"):
        assert getattr(found.perplexity, field) == pytest.approx(getattr(expected, field), rel=1e-5)
    assert (found.perplexity.num_samples, found.perplexity.num_particles) == (3, 4)
    assert 1 <= found.perplexity.num_ancestors <= 4
    assert found.lm_energies.shape == (6, 0)  # no plain samples of the LM were drawn


@pytest.fixture(scope="module")
def steered(tiny_corpus, tmp_path_factory):
    recipe = recipe_of(tiny_corpus, **SMC, steering={"prefixes": 4, "samples": 8, "every": 2})
    return run(recipe, tmp_path_factory.mktemp("runs") / "steered", progress=False)


@pytest.mark.parametrize("name", list(ENERGIES))
def test_particles_are_steered_by_what_was_fitted_to_their_energy(steered, by_smc, name):
    context, found = RunContext(steered.recipe, steered.folder), steered.energies[name].perplexity
    resampling = resampling_of(context, name, context.recipe.windows.continuation)
    assert (resampling.every, resampling.below) == (2, 1.0)
    assert float(resampling.tilt.of_likelihood.abs().max()) > 0
    seed = read_stage(steered.folder / ("sums" if name == "total" else "perplexity")).seed
    settings = {"num_samples": 4, "seed": seed, "method": "smc", "num_runs": 3}
    expected = context.joint(name).perplexity(context.test_windows, **settings, resampling=resampling)
    assert found.bound == pytest.approx(expected.bound, rel=1e-5)
    assert found.bound != pytest.approx(by_smc.energies[name].perplexity.bound, rel=1e-9)
    (again,) = evaluate_again(steered, [name], found.num_windows, 4, seed, num_runs=3).values()
    assert again.bound == pytest.approx(found.bound, rel=1e-5)


def test_other_texts_than_those_it_was_fitted_to_are_not_steered(steered, by_smc):
    context = RunContext(steered.recipe, steered.folder)
    length = context.recipe.windows.continuation
    plain = (
        resampling_of(context, "states", length + 1),
        resampling_of(context, "states", length, truncated=True),
        resampling_of(RunContext(by_smc.recipe, by_smc.folder), "states", length),
    )
    assert plain == (Resampling(),) * 3


def test_studies_draw_particles_by_it(steered):
    """On the run's windows, of the length that it was fitted to; truncated texts are drawn as usual."""
    seen: list[Resampling] = []

    def rows(subject: Subject, ids: range) -> pa.Table:
        seen.append(subject.resampling)
        return pa.table({"window": list(ids)})

    with open_run(steered.recipe, steered.folder, progress=False) as opened:
        for top_k in (None, 4):
            settings = {"energy": "states", "windows": 4, "top_k": top_k}
            opened.measured(f"seen-{top_k}", rows, settings)
    context = RunContext(steered.recipe, steered.folder)
    fitted = resampling_of(context, "states", context.recipe.windows.continuation)
    assert torch.equal(seen[0].twist.slope, fitted.twist.slope)
    assert torch.equal(seen[0].tilt.of_token, fitted.tilt.of_token)
    assert seen[1] == Resampling()


def test_another_steering_redoes_what_was_drawn_by_it(steered, tiny_corpus):
    def made() -> dict[str, int]:
        return {path.parent.name: os.stat(path).st_mtime_ns for path in steered.folder.glob(f"*/{MANIFEST}")}

    before = made()
    run(recipe_of(tiny_corpus, **SMC, steering={"prefixes": 4, "samples": 8}), steered.folder, progress=False)
    changed = {stage for stage, when in made().items() if before[stage] != when}
    assert changed == {"steering", "perplexity", "sums", "samples"}


def test_prompts_are_continued_by_smc(by_smc):
    for generation in by_smc.generations:
        assert 1 <= generation.num_ancestors <= generation.num_candidates == 8


def test_report_and_table_name_the_method(by_smc):
    page = write_report(by_smc.folder).read_text(encoding="utf-8")
    assert "By SMC, one of 8 particles of" in page
    assert "3 x 4 (SMC, " in page
    assert "ancestors)" in str(perplexity_table(by_smc.estimates).texts)
    told = verdicts({"states": by_smc.estimates["states"]})[0]
    assert "draws from 3 runs of 4 particles" in told
    assert "rests on 3 weighted runs" in told
    assert "How unevenly the samples count" not in page


def test_another_method_redoes_what_was_drawn_by_it(by_smc, tiny_corpus):
    def changed() -> dict[str, float]:
        return {path.parent.name: os.stat(path).st_mtime_ns for path in by_smc.folder.glob(f"*/{MANIFEST}")}

    before = changed()
    run(recipe_of(tiny_corpus, **SMC), by_smc.folder, progress=False)
    assert changed() == before  # a finished run is only read
    plain = run(recipe_of(tiny_corpus, **PLAIN), by_smc.folder, progress=False)
    after = changed()
    assert {stage for stage in after if after[stage] != before.get(stage)} == {"perplexity", "sums", "samples"}
    assert plain.energies["states"].perplexity.num_ancestors is None
    assert plain.energies["states"].lm_energies.shape == (6, 4)
    assert load_run(by_smc.folder).generations[0].num_ancestors is None
