"""Settings that would hang, fill the memory or write elsewhere are refused before anything is begun."""

import pytest
import yaml

from lexergy.errors import LexergyError
from lexergy.recipes.limits import LIMITS, limit_of, shown
from lexergy.recipes.loader import load_recipe, packaged_recipes, read_yaml
from lexergy.recipes.residual import ResidualRecipe


def recipe(tmp_path, *keys, value):
    """The recipe of an energy alone with one key changed, as a file."""
    content = read_yaml(packaged_recipes()["energy-alone"])
    section = content
    for key in keys[:-1]:
        section = section.setdefault(key, {})
    section[keys[-1]] = value
    path = tmp_path / "recipe.yaml"
    path.write_text(yaml.safe_dump(content))
    return path


@pytest.mark.parametrize(
    ("keys", "value", "message"),
    [
        (("name",), "../../x", "names the folder of a run"),
        (("name",), "/tmp/x", "names the folder of a run"),
        (("name",), "", "names the folder of a run"),
        (("name",), "..", "names the folder of a run"),
        (("name",), "a/b", "names the folder of a run"),
        (("name",), "x" * 300, "names the folder of a run"),
        (("seed",), 2**70, "`seed` is 1180591620717411303424; expected at most"),
        (("seed",), -1, "greater than or equal to 0"),
        (("negatives", "temperature"), float("inf"), "finite number"),
        (("negatives", "temperature"), float("nan"), "finite number"),
        (("negatives", "per_prefix"), 10**9, "`per_prefix` is 1000000000; expected at most 1048576"),
        (("generation", "candidates"), 10**20, "`candidates` is 100000000000000000000; expected at most"),
        (("energies", "energy", "training", "batch_size"), 10**9, "`batch_size` is 1000000000; expected at most"),
        (("windows", "prefix"), 10**15, "`prefix` is 1000000000000000; expected at most"),
    ],
)
def test_absurd_settings_are_refused(keys, value, message, tmp_path):
    with pytest.raises(LexergyError, match=message):
        load_recipe(recipe(tmp_path, *keys, value=value), ResidualRecipe)


@pytest.mark.parametrize(
    "content", ["a: " + "[" * 5000, "seed: " + "9" * 5000, "a: &a [*a]", "? {a: b}\n: c", "1: 2", "a: !!python/none 1"]
)
def test_yaml_that_breaks_its_reader_is_explained(content, tmp_path):
    path = tmp_path / "recipe.yaml"
    path.write_text(content)
    with pytest.raises(LexergyError, match=r"recipe\.yaml"):
        load_recipe(path, ResidualRecipe)


def test_packaged_recipes_are_within_the_limits():
    for name, path in packaged_recipes().items():
        for key, value in _numbers(read_yaml(path)):
            assert value <= limit_of(key), (name, key)


def _numbers(content):
    for key, value in content.items():
        if isinstance(value, dict):
            yield from _numbers(value)
        elif isinstance(value, int):
            yield str(key), value


def test_options_and_keys_share_a_limit():
    assert limit_of("--batch-size") == limit_of("batch_size") == LIMITS["batch_size"]
    assert shown(10**5000) == "a number of more than 40 digits"
