"""Fixtures of the toys are known everywhere by their names, which therefore stand for one thing each."""

import ast
from pathlib import Path

import conftest

HERE = Path(__file__).parent


def fixtures(path):
    """The names of the fixtures that a file defines."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef) and any("pytest.fixture" in ast.unparse(d) for d in node.decorator_list):
            yield node.name


TOYS = {f"toys.{path.stem}": list(fixtures(path)) for path in sorted((HERE / "toys").glob("*.py"))}


def test_every_toy_with_fixtures_is_a_plugin():
    assert conftest.pytest_plugins == [name for name, own in TOYS.items() if own]


def test_no_name_is_given_twice():
    names = [name for own in TOYS.values() for name in own]
    assert len(names) == len(set(names))
    others = {name for path in HERE.rglob("test_*.py") for name in fixtures(path)}
    assert others & set(names) == set()


def test_there_is_one_conftest():
    assert list(HERE.rglob("conftest.py")) == [HERE / "conftest.py"]
