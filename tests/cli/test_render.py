import json
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from lexergy.cli.render import print_json, print_passage, print_table, to_plain, visible


@dataclass
class Inner:
    ess: float
    folder: Path


def test_everything_becomes_json(capsys):
    value = {
        "inner": Inner(math.nan, Path("runs/x")),
        3: (1.5, math.inf, np.float32(0.25)),
        "array": np.eye(2),
    }
    print_json(value)
    assert json.loads(capsys.readouterr().out) == {
        "inner": {"ess": None, "folder": "runs/x"},
        "3": [1.5, None, 0.25],
        "array": [[1.0, 0.0], [0.0, 1.0]],
    }


def test_array_with_nan():
    assert to_plain(np.array([1.0, np.nan])) == [1.0, None]


def test_text_cannot_drive_the_terminal():
    assert visible("a\x1b[31mred\x07\nb") == "a [31mred \nb"


def test_text_is_not_markup(capsys):
    print_passage("Prompt", "[bold]x[/bold] :smile:")
    print_table("Title", ("token", "p"), [("[red]y", "0.5")])
    text = capsys.readouterr().out
    assert "[bold]x[/bold] :smile:" in text
    assert "[red]y" in text


@pytest.mark.parametrize("width", ["40", "200"])
def test_numbers_are_never_cut(capsys, monkeypatch, width):
    monkeypatch.setenv("COLUMNS", width)
    print_table("Title", ("a", "perplexity"), [("long words " * 6, "26.34 - 26.53")])
    assert "26.34 - 26.53" in capsys.readouterr().out
