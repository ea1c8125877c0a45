"""Every public name shows how to use it, and what it shows is true.

python tests/docs/test_examples.py        # which public names have no example
"""

import doctest
import importlib
import inspect
from pathlib import Path

import pytest

import lexergy


def examples(name: str) -> list[doctest.DocTest]:
    """The doctests in the docstring of a public name, with no globals: an example imports what it needs."""
    docstring = inspect.cleandoc(getattr(lexergy, name).__doc__ or "")
    found = doctest.DocTestParser().get_doctest(docstring, {}, name, None, None)
    return [found] if found.examples else []


@pytest.mark.parametrize("name", lexergy.__all__)
def test_public_names_have_examples_that_run(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert examples(name), f"lexergy.{name} has no example; add `Examples:` with >>> lines to its docstring"
    for example in examples(name):
        report: list[str] = []
        runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
        assert runner.run(example, out=report.append).failed == 0, "".join(report)


def test_public_names_are_listed_once_each():
    assert sorted(lexergy.__all__) == sorted(lexergy._HOMES)
    for name, home in lexergy._HOMES.items():
        assert hasattr(importlib.import_module(home), name), f"{home} has no {name}"


def test_type_checkers_see_the_public_names():
    source = Path(inspect.getfile(lexergy)).read_text(encoding="utf-8")
    imported = source.split("if TYPE_CHECKING:")[1].split("def __getattr__")[0]
    assert {name for name in lexergy.__all__ if name not in imported} == set()


if __name__ == "__main__":
    missing = [name for name in lexergy.__all__ if not examples(name)]
    print(f"{len(lexergy.__all__)} public names, {len(missing)} without an example", *missing)
