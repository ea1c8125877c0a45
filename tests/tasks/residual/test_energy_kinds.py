"""A kind of energy is one row of one table: what reads the table knows a new kind at once."""

import subprocess
import sys
from pkgutil import resolve_name

import pytest

from lexergy.errors import LexergyError
from lexergy.models.energies import EnergyModel
from lexergy.recipes.loader import load_recipe
from lexergy.recipes.real_or_fake import LaboratoryRecipe
from lexergy.recipes.residual import ResidualRecipe
from lexergy.recipes.sections.energies import ENERGY_KINDS
from lexergy.report.pages.run import render_page
from lexergy.tasks.residual.parameters import count_parameters
from lexergy.tasks.residual.run import run
from toys.recipes import TRAINING, residual_recipe
from toys.repetition import REPETITION, RepetitionEnergy


@pytest.fixture
def repetition(monkeypatch):
    """The table with one more row."""
    with monkeypatch.context() as patch:
        patch.setitem(ENERGY_KINDS, "repetition", REPETITION)
        for recipe in (ResidualRecipe, LaboratoryRecipe):
            recipe.model_rebuild(force=True)
        yield
    for recipe in (ResidualRecipe, LaboratoryRecipe):
        recipe.model_rebuild(force=True)


def test_a_new_kind_goes_through_a_whole_run(repetition, tiny_corpus, tmp_path):
    energies = {
        "repeats": {"kind": "repetition", "training": TRAINING},
        "again": {"kind": "refreshed", "of": "repeats", "candidates": 4, "training": TRAINING},
        "total": {"kind": "sum", "of": ["repeats", "again"]},
    }
    content = residual_recipe(tiny_corpus, energies=energies, masked_lm=None, generation=None)
    recipe = ResidualRecipe.model_validate(content | {"perplexity": {"samples": 8, "windows": 4}})
    result = run(recipe, tmp_path / "run", progress=False)
    assert isinstance(EnergyModel.from_pretrained(tmp_path / "run" / "again"), RepetitionEnergy)
    counts = count_parameters(recipe)
    assert (counts["repeats"], counts["again"], counts["total"]) == (2, 2, 4)
    assert "Counts repetitions." in render_page(result)


def test_a_new_kind_that_reads_tokens_is_known_to_the_laboratory(repetition):
    definitions = LaboratoryRecipe.model_json_schema()["$defs"]
    assert REPETITION.recipe.__name__ in definitions
    assert "StatesEnergyRecipe" not in definitions  # which needs the states of one LM


@pytest.mark.parametrize("kind", ENERGY_KINDS)
def test_every_row_is_whole(kind):
    row = ENERGY_KINDS[kind]
    assert kind in row.recipe.model_fields["kind"].annotation.__args__
    assert row.builder is None or callable(resolve_name(row.builder))
    assert row.description.endswith(".")


def test_a_kind_that_is_not_there_is_told_with_those_that_are(tiny_corpus, tmp_path):
    path = tmp_path / "recipe.yaml"
    content = residual_recipe(tiny_corpus, energies={"mine": {"kind": "zebra", "training": TRAINING}})
    path.write_text(repr(content).replace("None", "null"))
    with pytest.raises(LexergyError, match=f"`energies.mine.kind` is zebra; expected one of {', '.join(ENERGY_KINDS)}"):
        load_recipe(path, ResidualRecipe)


def test_recipes_are_read_without_torch():
    script = "import sys, lexergy.recipes.residual; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", script], check=True)
