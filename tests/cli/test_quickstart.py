"""`lexergy quickstart`: what `run` does with the recipe of that name."""

from pathlib import Path

import pytest

from lexergy.cli.main import run_command
from lexergy.cli.verbs import quickstart, run


@pytest.mark.parametrize(
    ("options", "folder", "as_json"),
    [([], "runs/quickstart", False), (["--out", "elsewhere", "--json"], "elsewhere", True)],
    ids=["alone", "options"],
)
def test_the_recipe_is_run(options, folder, as_json, monkeypatch):
    asked = {}
    for verb in (quickstart, run):
        monkeypatch.setattr(
            verb,
            "run_and_show",
            lambda recipe, folder, *, as_json, verb=verb: asked.update({verb: (recipe, folder, as_json)}),
        )
    assert run_command(["quickstart", *options]) == 0
    assert run_command(["run", "quickstart", *options]) == 0
    assert asked[quickstart] == asked[run]
    assert asked[quickstart][0].lm.source == "smollm2-135m"
    assert asked[quickstart][1:] == (Path(folder), as_json)
