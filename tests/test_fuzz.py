"""Hundreds of calls and inputs that nobody would make on purpose; `make fuzz` makes a hundred thousand."""

import time
from collections import Counter

import pytest

from lexergy.tasks.residual.run import run
from lexergy.testing import tiny_recipe, write_tiny_corpus
from toys.fuzz import fuzzed, run_readings

SECONDS = 12


@pytest.fixture
def smallest_run(tmp_path):
    run(tiny_recipe(write_tiny_corpus(tmp_path / "texts")), tmp_path / "run", progress=False)
    return tmp_path / "run"


@pytest.mark.usefixtures("own_cache")
@pytest.mark.filterwarnings("ignore")  # shown on stderr, as in a terminal
def test_nothing_ends_in_a_traceback(smallest_run, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    made = Counter()
    with fuzzed(17, run_readings(smallest_run)) as fuzz:
        for kind in fuzz.kinds:  # each at least once, however slow the machine is
            made[fuzz.step(0, kind)] += 1
        end = time.monotonic() + SECONDS
        while time.monotonic() < end and made.total() < 2000:
            made[fuzz.step(made.total())] += 1
    assert len(made) == len(fuzz.kinds)
