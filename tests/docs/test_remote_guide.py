"""The guide to LMs that live elsewhere: its Python runs on a real llama.cpp server, its recipe is one."""

import re
from pathlib import Path

import pytest
import yaml

from lexergy.recipes.loader import load_recipe
from lexergy.recipes.residual import ResidualRecipe
from lexergy.recipes.sections.base_models import LMRecipe

GUIDE = Path(__file__).parents[2] / "docs" / "guides" / "remote.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", GUIDE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def test_the_section_of_the_guide_is_that_of_the_recipe():
    (block,) = blocks("yaml")
    written, recipe = yaml.safe_load(block), load_recipe("smollm2-remote", ResidualRecipe)
    assert LMRecipe.model_validate(written["lm"]) == recipe.lm
    assert recipe.perplexity is written["perplexity"] is None


def test_the_python_of_the_guide(capsys):
    pytest.importorskip("xllamacpp", reason="llama.cpp's server is not installed: pip install xllamacpp")
    start, use = blocks("python")
    names: dict = {}
    exec(compile(start.replace("8080", "0"), str(GUIDE), "exec"), names)
    address = capsys.readouterr().out.strip()
    exec(compile(use.replace("http://127.0.0.1:8080", address), str(GUIDE), "exec"), names)
    assert capsys.readouterr().out.strip()
