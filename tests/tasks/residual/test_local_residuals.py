"""A run on an LM corrected token by token: what each residual adds, what is redone, and all commands on top of it."""

import dataclasses
import json
import shutil
from pathlib import Path

import pytest
import torch

from lexergy.core.estimation.perplexity import exact_perplexity
from lexergy.errors import LexergyError
from lexergy.models.causal.lm import CausalLM, weights_of
from lexergy.models.causal.local_residuals import NgramResidual, UnigramResidual, file_of
from lexergy.models.causal.positions import position_log_probs
from lexergy.models.scoring.kinds import load_scorer
from lexergy.recipes.residual import ResidualRecipe
from lexergy.report.pages.run import render_page
from lexergy.report.perplexity import gains_in_all
from lexergy.runs.records import load_run
from lexergy.runs.stages import read_stage
from lexergy.serve.api.catalogue import base_name
from lexergy.studies.reproduce import load_study
from lexergy.studies.residual.workspace import Evidence
from lexergy.tasks.residual import local_residuals
from lexergy.tasks.residual.context import RunContext
from lexergy.tasks.residual.evaluate import evaluate_again
from lexergy.tasks.residual.local_residuals import Fitting, _read_windows
from lexergy.tasks.residual.run import run
from lexergy.testing import write_tiny_corpus
from lexergy.training.objectives.output_layer import OutputLayerModelling
from toys.kills import killed_once
from toys.recipes import TRAINING, residual_recipe

ADAPTER = {"kind": "adapter", "rank": 2, "training": TRAINING | {"max_steps": 6, "evaluate_every": 2}}
RESIDUAL = ["ngram", {"kind": "unigram", "smoothing": 2.0}, ADAPTER]  # in any order
FIT = {"tokens": 300, "validation_tokens": 200, "share": 0.6}
STATES = {"kind": "states", "layers": [0, 1], "training": TRAINING | {"max_steps": 4}}


def corrected_recipe(texts: Path, source: Path, residual=RESIDUAL, **changes) -> ResidualRecipe:
    lm = {"source": str(source), "residual": residual, "residual_fit": FIT}
    content = residual_recipe(texts, lm=lm, masked_lm=None, energies={"energy": STATES}, generation=None)
    return ResidualRecipe.model_validate(content | {"perplexity": {"samples": 20, "windows": 8}} | changes)


@pytest.fixture(scope="module")
def corrected(finished_run, tiny_corpus, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "corrected"
    run(corrected_recipe(tiny_corpus, finished_run / "lm"), folder, progress=False)
    return folder


def keys(folder: Path) -> dict[str, str]:
    return json.loads((folder / "run.json").read_text())["stages"]


def test_each_residual_is_measured_on_top_of_those_before_it(corrected):
    result = load_run(corrected)
    context = RunContext(result.recipe, corrected)
    assert list(result.corrections) == ["validation", "test"]
    windows = context.test_windows
    bare = context.frozen_lm.log_prob(windows.tokens, prefix_length=windows.prefix_length)
    for name, told in result.corrections["test"].items():
        lm = context.frozen_lm if name == "bare" else CausalLM.from_pretrained(corrected / f"residual_{name}")
        log_prob = lm.log_prob(windows.tokens, prefix_length=windows.prefix_length)
        own = exact_perplexity(log_prob, bare, 5, documents=windows.document_ids)
        assert told.perplexity == pytest.approx(own.perplexity, rel=1e-4)
        assert told.gain == pytest.approx(own.gain, abs=1e-4)
    assert list(result.corrections["test"]) == ["bare", "unigram", "adapter", "ngram"]
    assert result.corrections["test"]["ngram"].gain > 0.1  # the tiny LM knows little of its corpus
    assert result.estimates["energy"].base == pytest.approx(result.corrections["test"]["ngram"].perplexity, rel=1e-4)


def test_what_residuals_and_energy_do_together_is_told(corrected):
    result = load_run(corrected)
    (sentence,) = gains_in_all(result)
    frozen, bound = result.corrections["test"]["bare"].perplexity, result.estimates["energy"].bound
    assert (
        f"at most {bound:.2f} where the frozen LM is {frozen:.2f}: {100 * (1 - bound / frozen):.1f} % less" in sentence
    )
    assert sentence in render_page(result)


def test_table_1_begins_with_the_lm_without_residuals(corrected):
    """Every gain is over the frozen LM: that of the residuals, and with it the energy's."""
    result = load_run(corrected)
    estimate, told = result.estimates["energy"], result.corrections["test"]
    table, _ = load_study("table-1").conclude([Evidence(result, "energy", estimate.windows.documents)]).tables
    base, residuals, joint = table.rows
    assert (base[0], base[2]) == ("base LM", told["bare"].perplexity)
    assert (residuals[0], residuals[2]) == ("local residuals", told["ngram"].perplexity)
    assert residuals[5] == pytest.approx(told["ngram"].gain)
    assert joint[2] == estimate.bound
    assert joint[5] == pytest.approx(told["ngram"].gain + estimate.gain)


def test_table_1_says_how_to_measure_residuals_anew(corrected, tmp_path):
    result = dataclasses.replace(load_run(corrected), folder=tmp_path)  # where no such file is
    with pytest.raises(LexergyError, match="remove that folder"):
        load_study("table-1").conclude([Evidence(result, "energy", result.estimates["energy"].windows.documents)])


def test_strength_and_weights_are_the_likeliest_on_validation_text(corrected):
    context = RunContext(load_run(corrected).recipe, corrected)
    read = Fitting(context, read_stage(corrected / "residual_states"), None, context.frozen_lm).positions["validation"]
    unigram, adapter, ngram = context.lm.residuals

    def log_likelihood(*residuals):
        return float(position_log_probs(context.frozen_lm.corrected(residuals), read).sum())

    assert 0 < unigram.strength <= 1
    for step in (-0.1, 0.1):
        other = UnigramResidual(unigram.log_ratio, unigram.strength + step)
        assert unigram.strength + step > 1 or log_likelihood(other) <= log_likelihood(unigram)
    best = log_likelihood(unigram, adapter, ngram)
    assert ngram.weights.max() > 0.1
    for length in ngram.weights[1:].nonzero().flatten() + 1:
        weights = ngram.weights.clone()
        weights[length] *= 0.8
        assert log_likelihood(unigram, adapter, NgramResidual(ngram.levels, ngram.vocab_size, weights)) < best


def test_the_adapter_is_kept_where_validation_text_is_likeliest(corrected):
    history = json.loads((corrected / "residual_adapter" / "history.json").read_text())
    losses = [record["validation"]["loss"] for record in history]
    assert read_stage(corrected / "residual_adapter").facts["validation"]["loss"] == min(losses) < losses[0]


def test_its_name_says_that_it_is_corrected(corrected):
    context = RunContext(load_run(corrected).recipe, corrected)
    for name in (context.lm.name, context.recipe.lm.description, context.recipe.lm.origin):
        assert name.endswith(", corrected by unigram, adapter, ngram")
    assert base_name(context.recipe.lm, "mine").endswith("-corrected")
    page = render_page(load_run(corrected))
    assert all(f"<td>{label}</td>" in page for label in ("frozen LM", "+ unigram", "+ adapter", "+ ngram"))
    assert "the corrected LM&#39;s is" in page


def test_states_give_the_log_probabilities_of_the_lm(corrected):
    context = RunContext(load_run(corrected).recipe, corrected)
    windows = context.test_windows.select(range(4))
    told = position_log_probs(weights_of(context.lm), _read_windows(context, windows))
    assert torch.allclose(told, context.lm.token_log_prob(windows.tokens, prefix_length=6), atol=1e-4)


def test_no_residual_has_read_what_energies_are_trained_on(corrected):
    context = RunContext(load_run(corrected).recipe, corrected)
    counted = {document.id for document in context.residual_documents}
    trained = set(context.windows["train"].document_ids)
    assert trained.isdisjoint(counted)
    assert counted | {document.id for document in context.window_documents["train"]} == {
        document.id for document in context.splits.train
    }
    assert len(counted) == round(0.6 * len(context.splits.train))


def test_a_changed_residual_redoes_what_depends_on_it(corrected, finished_run, tiny_corpus, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(corrected, folder)
    before = keys(folder)
    changed = [RESIDUAL[1], ADAPTER, {"kind": "ngram", "order": 3}]
    run(corrected_recipe(tiny_corpus, finished_run / "lm", changed), folder, progress=False)
    after = keys(folder)
    same = {name for name in before if before[name] == after[name]}
    assert same == {"lm", "windows", "residual_states", "residual_unigram", "residual_adapter"}
    assert len(weights_of(RunContext(load_run(folder).recipe, folder).lm).residuals[-1].levels) == 2


def test_killed_it_ends_with_the_same_numbers(corrected, finished_run, tiny_corpus, tmp_path, monkeypatch):
    recipe, folder = corrected_recipe(tiny_corpus, finished_run / "lm"), tmp_path / "run"
    for place, name, call in ((local_residuals, "last_states", 2), (OutputLayerModelling, "loss", 5)):
        with monkeypatch.context() as patch:
            patch.setattr(place, name, killed_once(getattr(place, name), call))
            with pytest.raises(KeyboardInterrupt):
                run(recipe, folder, progress=False)
    run(recipe, folder, progress=False)
    assert read_stage(folder / "residual_states").attempts == read_stage(folder / "residual_adapter").attempts == 2
    for kind in ("unigram", "adapter", "ngram"):
        own, other = (file_of(made / "residual_ngram", kind).read_bytes() for made in (folder, corrected))
        assert own == other, kind
    assert load_run(folder).corrections == load_run(corrected).corrections


def test_samples_and_texts_are_the_corrected_lms(corrected):
    result = load_run(corrected)
    context = RunContext(result.recipe, corrected)
    windows = context.test_windows
    samples = context.lm.sample(windows.prefixes[:2], num_samples=3, max_new_tokens=5)
    rows = torch.cat([windows.prefixes[:2].repeat_interleave(3, 0), samples.tokens.flatten(0, 1)], 1)
    assert torch.allclose(context.lm.log_prob(rows, prefix_length=6), samples.log_prob.flatten(), atol=1e-4)
    again = evaluate_again(result, ["energy"], 4, 10, seed=1)["energy"]
    assert again.base == pytest.approx(
        float(torch.exp(-context.lm.log_prob(context.some_test_windows(4).tokens, prefix_length=6).mean() / 5)),
        rel=1e-4,
    )
    scored, bare = (
        load_scorer(folder).score(["the people shall defend"])[0]
        for folder in (corrected / "residual_ngram", corrected / "lm")
    )
    assert scored.log_score > bare.log_score


def test_texts_that_end_have_their_end_counted(finished_run, tiny_corpus, tmp_path):
    windows = {"prefix": 6, "continuation": 5, "train": 20, "validation": 10, "test": 8, "ends": True}
    recipe = corrected_recipe(tiny_corpus, finished_run / "lm", ["unigram", "ngram"], windows=windows, perplexity=None)
    run(recipe, tmp_path, progress=False)
    context = RunContext(recipe, tmp_path)
    end = context.end_token
    (unigram, ngram) = weights_of(context.lm).residuals
    assert unigram.log_ratio[end] != 0
    assert any((level.tokens == end).any() for level in ngram.levels)


@pytest.mark.parametrize(
    ("lm", "message"),
    [
        ({"source": "x", "residual": ["unigram", "unigram"]}, "named twice"),
        ({"source": "x", "residual": ["trigram"]}, "trigram"),
        ({"source": "x", "residual": [{"kind": "ngram", "order": 1}]}, "greater than or equal to 2"),
        ({"source": "openai:http://127.0.0.1:1", "tokenizer": "x", "residual": ["ngram"]}, "elsewhere"),
    ],
)
def test_mistakes_are_explained(tiny_corpus, lm, message):
    with pytest.raises(ValueError, match=message):
        ResidualRecipe.model_validate(residual_recipe(tiny_corpus, lm=lm, masked_lm=None, energies={"energy": STATES}))


def test_one_document_is_too_few(finished_run, tmp_path):
    texts = write_tiny_corpus(tmp_path / "texts", documents=3)
    recipe = corrected_recipe(texts, finished_run / "lm", corpus={"source": str(texts), "validation": 0.3, "test": 0.3})
    with pytest.raises(LexergyError, match="one training document"):
        run(recipe, tmp_path / "run", progress=False)
