"""Heads fitted to what frozen readers make of the LM's text: a whole run, killed on its way, and its sum."""

import math

import pytest
import torch

from lexergy.core.losses import nce_loss
from lexergy.models.energies import EnergyModel, ReaderEnergy
from lexergy.recipes.residual import ResidualRecipe
from lexergy.report.pages.run import render_page
from lexergy.runs.columns import from_column
from lexergy.runs.stages import read_stage
from lexergy.runs.workspace import stage_store
from lexergy.tasks.residual import reading
from lexergy.tasks.residual.context import RunContext
from lexergy.tasks.residual.negatives import contrastive_data
from lexergy.tasks.residual.parameters import count_parameters
from lexergy.tasks.residual.run import run
from lexergy.training.objectives.contrastive import pair_energies
from toys.kills import killed_once

PENALTIES = {"folds": 2, "state_penalties": [0.1, 1.0]}


def reader_recipe(corpus, lm, reader, encoder) -> ResidualRecipe:
    content = {
        "name": "read",
        "corpus": {"source": str(corpus), "validation": 0.2, "test": 0.2},
        "windows": {"prefix": 6, "continuation": 5, "train": 20, "validation": 8, "test": 4, "ends": True},
        "lm": {"source": str(lm)},
        "negatives": {"per_prefix": 2},
        "energies": {
            "lm-reader": {"kind": "fitted_reader", "source": str(reader), "layers": [1, 2], **PENALTIES, "pairs": 15},
            "encoder": {"kind": "fitted_encoder", "source": str(encoder), "layers": [1, 2], **PENALTIES},
            "total": {"kind": "sum", "of": ["lm-reader", "encoder"]},
        },
        "perplexity": {"samples": 4},
        "generation": {"prompts": ["our union"], "candidates": 4, "max_new_tokens": 4},
    }
    return ResidualRecipe.model_validate(content)


@pytest.fixture(scope="module")
def recipe(tiny_corpus, byte_lm, word_lm_folder, syllable_encoder_folder) -> ResidualRecipe:
    return reader_recipe(tiny_corpus, byte_lm.source, word_lm_folder, syllable_encoder_folder)


@pytest.fixture(scope="module")
def finished(recipe, tmp_path_factory):
    """Interrupted in the second shard of the first reader's features."""
    folder = tmp_path_factory.mktemp("runs") / "read"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reading, "TEXTS_PER_SHARD", 30)
        patch.setattr(ReaderEnergy, "read", killed_once(ReaderEnergy.read, 2))
        with pytest.raises(KeyboardInterrupt):
            run(recipe, folder, progress=False)
        killed = sorted(path.name for path in (folder / "lm-reader" / "features").glob("*.parquet"))
        result = run(recipe, folder, progress=False)
    assert killed == ["shard-000000.parquet"]
    assert read_stage(folder / "lm-reader").attempts == 2
    return result


@pytest.mark.parametrize("name", ["lm-reader", "encoder"])
def test_the_stored_features_are_those_of_the_texts_and_the_head_is_the_best_on_them(recipe, finished, name):
    context, stage = RunContext(recipe, finished.folder), read_stage(finished.folder / name)
    energy = EnergyModel.from_pretrained(stage.folder).attach(context.lm)
    assert isinstance(energy, ReaderEnergy)
    table = stage_store(stage, reading.FEATURES_FOLDER).table(3)
    features = torch.from_numpy(from_column(table.column("features")))
    assert len(features) == stage.facts["pairs"] == {"lm-reader": 23, "encoder": 28}[name]
    _, validation = contrastive_data(context, read_stage(finished.folder / "negatives"), None)
    scores = pair_energies(energy, validation)  # each text at its own length
    with torch.no_grad():
        stored = energy.of_features(features[-len(validation) :]).double()
    torch.testing.assert_close(stored, scores, atol=1e-4, rtol=1e-4)
    assert scores.std() > 0
    weight = energy.head[-1].weight.detach().squeeze(0).double().requires_grad_()
    energies = energy.standardised(features).double() @ weight + energy.head[-1].bias.double()
    (gradient,) = torch.autograd.grad(nce_loss(energies[:, 0], energies[:, 1:]), weight)
    chosen = stage.facts["penalties"]
    assert list(chosen) == list(energy.groups)
    penalty = torch.cat([torch.full((size,), chosen[group]) for group, size in energy.groups.items()])
    torch.testing.assert_close(gradient, -penalty * weight, atol=1e-4, rtol=1e-4)


def test_readers_are_measured_summed_and_shown(finished, recipe):
    assert finished.energies.keys() == {"lm-reader", "encoder", "total"}
    assert all(math.isfinite(energy.perplexity.upper) for energy in finished.energies.values())
    assert finished.generations[0].num_candidates == 4
    page = render_page(finished)
    assert "on states and" in page
    assert "another frozen LM that reads the decoded text" in page
    counts = count_parameters(recipe)
    assert counts["total"] == counts["lm-reader"] + counts["encoder"] > 10_000


def test_an_lm_elsewhere_may_be_read(recipe):
    remote = {"source": "openai:http://127.0.0.1:8080", "tokenizer": "smollm2-135m"}
    assert ResidualRecipe.model_validate(recipe.plain() | {"lm": remote}).lm.is_remote
