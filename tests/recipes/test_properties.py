"""Whatever is written into a recipe, it is read, or what is wrong with it is said in one line (Hypothesis)."""

import copy
import time

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lexergy.errors import LexergyError
from lexergy.recipes.limits import limit_of
from lexergy.recipes.loader import COMMANDS, load_recipe, packaged_recipes, read_yaml

QUICK = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8))
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=6), inner, max_size=3)),
    max_leaves=5,
)
KINDS = sorted(COMMANDS, key=lambda kind: kind.__name__)


def read(path, kind):
    """The recipe, or None where it is refused in a line that names the file."""
    try:
        return load_recipe(path, kind)
    except LexergyError as error:
        message = str(error)
    assert str(path) in message
    assert len(message.splitlines()) == 1
    return None


@QUICK
@given(data=st.data(), kind=st.sampled_from(KINDS))
def test_a_changed_recipe_is_read_or_refused(data, kind, tmp_path):
    content = copy.deepcopy(read_yaml(packaged_recipes()[data.draw(st.sampled_from(sorted(packaged_recipes())))]))
    section = content
    while isinstance(section, dict) and section:
        key = data.draw(st.sampled_from(sorted(section, key=str)))
        if isinstance(section[key], dict) and data.draw(st.booleans()):
            section = section[key]
            continue
        section[key] = data.draw(VALUES)
        break
    path = tmp_path / "recipe.yaml"
    path.write_text(yaml.safe_dump(content, allow_unicode=True), encoding="utf-8")
    recipe = read(path, kind)
    if recipe is not None:
        assert kind.model_validate(recipe.plain()) == recipe
        assert recipe.seed <= limit_of("seed")
        assert "/" not in recipe.name


@QUICK
@given(
    content=st.one_of(st.binary(max_size=60), st.text(max_size=60).map(lambda text: text.encode("utf-8", "replace")))
)
def test_any_bytes_are_read_or_refused(content, tmp_path):
    path = tmp_path / "recipe.yaml"
    path.write_bytes(content)
    for kind in KINDS:
        assert read(path, kind) is None


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_an_empty_recipe_is_refused(kind, tmp_path):
    (tmp_path / "recipe.yaml").write_text("{}")
    assert read(tmp_path / "recipe.yaml", kind) is None


@pytest.mark.parametrize("content", ["a: " + "[" * 100_000, "a: " + "{" * 100_000, "- " * 5000])
def test_deep_nesting_is_refused_at_once(content, tmp_path):
    (tmp_path / "deep.yaml").write_text(content)
    started = time.process_time()
    assert read(tmp_path / "deep.yaml", KINDS[0]) is None
    assert time.process_time() - started < 1
