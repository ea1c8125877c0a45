"""One loader for all kinds of recipes, which says what is wrong with a file before anything heavy is imported."""

import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import ValidationError

from lexergy.errors import LexergyError
from lexergy.files import hash_of
from lexergy.recipes.finetuning import FinetuningRecipe
from lexergy.recipes.loader import COMMANDS, checked, load_recipe, packaged_recipes, read_yaml
from lexergy.recipes.residual import ResidualRecipe

IMPORT_ALL = """
import pkgutil, sys
from importlib import import_module
import lexergy.recipes

modules = [module.name for module in pkgutil.walk_packages(lexergy.recipes.__path__, "lexergy.recipes.")]
assert len(modules) > 5, modules
for name in modules:
    import_module(name)
print(*[name for name in ("torch", "transformers", "pyarrow", "numpy") if name in sys.modules])
"""


def is_a(kind, content) -> bool:
    try:
        kind.model_validate(content)
    except ValidationError:
        return False
    return True


def kind_of(name):
    content = read_yaml(packaged_recipes()[name])
    (kind,) = (kind for kind in COMMANDS if is_a(kind, content))
    return kind


def test_recipes_are_read_without_what_takes_seconds_to_import():
    done = subprocess.run([sys.executable, "-c", IMPORT_ALL], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


@pytest.mark.parametrize("name", packaged_recipes())
def test_a_recipe_that_comes_along_is_of_one_kind(name):
    assert load_recipe(name, kind_of(name)).name == Path(name).stem


def test_the_recipes_that_the_pages_name_are_there():
    named = {"quickstart", "from-scratch", "smollm2-bit", "smollm2-sotu", "smollm2-read-by-minilm"}
    assert named | {"smollm2-read-by-gemma", "gemma-read-by-smollm2"} <= packaged_recipes().keys()


@pytest.mark.parametrize("given", packaged_recipes())
def test_a_recipe_of_another_command_is_told_as_such(given):
    own = kind_of(given)
    for kind in COMMANDS.keys() - {own}:
        with pytest.raises(LexergyError) as raised:
            load_recipe(given, kind)
        assert f"another command: `{COMMANDS[own]}`." in str(raised.value)


def test_a_mistake_is_no_other_command(tmp_path):
    path = tmp_path / "recipe.yaml"
    path.write_text("name: x\ncorpus: {source: a}\nwindows: {prefix: 1, continuation: 1}\nlm: {source: b}\nmodels: {}")
    with pytest.raises(LexergyError, match="unknown key `models`"):
        load_recipe(path, ResidualRecipe)
    path.write_text("name: x\ncorpus: {source: a}")
    with pytest.raises(LexergyError, match="the key `windows` is missing"):
        load_recipe(path, ResidualRecipe)


def test_a_file_that_is_no_recipe(tmp_path):
    with pytest.raises(LexergyError, match=r"no recipe `nowhere.yaml`.*quickstart"):
        load_recipe("nowhere.yaml", ResidualRecipe)
    broken = tmp_path / "broken.yaml"
    for content, message in (
        (b"name: [1\ncorpus: 2", "not valid YAML in line 2"),
        (b"- a\n- b", "holds a list"),
        (b"\xff\xfe\x00", "not UTF-8"),
    ):
        broken.write_bytes(content)
        with pytest.raises(LexergyError, match=message):
            load_recipe(broken, ResidualRecipe)


def test_options_are_checked_like_a_file():
    assert checked(FinetuningRecipe, encoder="e", task="span").max_answer_tokens == 30
    with pytest.raises(LexergyError, match=r"^`max_length` is 0; input should be greater than or equal to 1\.$"):
        checked(FinetuningRecipe, encoder="e", task="span", max_length=0)
    with pytest.raises(LexergyError, match=r"^`task` is 'spam'; input should be 'classification'"):
        checked(FinetuningRecipe, encoder="e", task="spam")


def test_finished_fine_tunings_stay_finished():
    """The hash of what a stage's key read of it when this was a plain dataclass."""
    recipe = FinetuningRecipe(encoder="e", task="span", epochs=2.0, max_length=64)
    assert hash_of(recipe.model_dump(mode="json", exclude={"num_seeds", "seed"})) == "d535bbb30cae76f8"


def test_letters_that_cannot_be_shown_are_spelt(tmp_path):
    path = tmp_path / "recipe.yaml"
    path.write_text('"se\\red": 1\n')
    with pytest.raises(LexergyError, match=r"unknown key `se\\red`"):
        load_recipe(path, ResidualRecipe)
