"""`lexergy quickstart`: `run` with a recipe of that name."""

import json

from lexergy.recipes import residual
from toys.commands import json_of


def test_the_run_is_that_of_the_recipe(tiny_recipe_file, tiny_run, monkeypatch, capsys):
    """A tiny recipe in the place of the packaged one, whose run is finished."""
    load = residual.load_recipe
    monkeypatch.setattr(residual, "load_recipe", lambda name: load({"quickstart": tiny_recipe_file}[name]))
    shown = json_of(["quickstart", "--folder", tiny_run], capsys)
    assert shown == json.loads((tiny_run.parent / "summary.json").read_text())
