"""Negatives with a budget: when pairs are added and when not, on a toy LM and by a clock of its own."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
import torch

from lexergy.core.fitting.learning_curves import Stop
from lexergy.errors import LexergyError
from lexergy.recipes.residual import LEARNING_CURVE, ResidualRecipe
from lexergy.report.pages.run import render_page
from lexergy.runs.parts import doing_part, read_part
from lexergy.runs.records import RunResult
from lexergy.runs.stages import read_stage
from lexergy.tasks.residual import growing, negatives, reading
from lexergy.tasks.residual.context import RunContext
from lexergy.tasks.residual.run import run
from toys.kills import killed_once

SECONDS_PER_SHARD = 10.0
PENALTIES = {"folds": 2, "state_penalties": [0.1, 1.0]}
STATES = {"kind": "fitted_states", "layers": [1, 2], **PENALTIES}
STATISTICS = STATES | {"layers": []}  # few numbers, which need few pairs
EASY_HUNDRED = {"train": 100, "validation": 8, "test": 4}


class Clock:
    """Ten seconds for each shard of negatives, and none for anything else."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.sample = negatives._sample

    def __call__(self) -> float:
        return self.seconds

    def timed(self, *arguments) -> pa.Table:
        self.seconds += SECONDS_PER_SHARD
        return self.sample(*arguments)


@pytest.fixture(autouse=True)
def clock(monkeypatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(growing, "monotonic", clock)
    monkeypatch.setattr(negatives, "_sample", clock.timed)
    monkeypatch.setattr(growing, "FIRST_PAIRS", 16)
    monkeypatch.setattr(negatives, "ROWS_PER_SHARD", 4)
    return clock


@pytest.fixture
def recipe(tiny_corpus, byte_lm):
    def made(budget: str | None = "60m", energy: dict = STATES, **changes) -> ResidualRecipe:
        content = {
            "name": "grown",
            "corpus": {"source": str(tiny_corpus), "validation": 0.2, "test": 0.2},
            "windows": {"prefix": 6, "continuation": 5, "train": 40, "validation": 6, "test": 3},
            "lm": {"source": byte_lm.source},
            "negatives": {"budget": budget},
            "energies": {"head": energy},
            "perplexity": {"samples": 4},
        }
        return ResidualRecipe.model_validate(content | changes)

    return made


def sizes(result: RunResult) -> list[int]:
    assert result.learning_curve is not None
    return [point.pairs for point in result.learning_curve.points]


def drawn_windows(folder: Path) -> list[int]:
    """In the order in which they were drawn."""
    parts = sorted((folder / LEARNING_CURVE).glob("*/negatives"))
    return [
        number
        for part in parts
        for shard in sorted(part.glob("*.parquet"))
        for number in parquet.read_table(shard).column("window").to_pylist()
    ]


def written(folder: Path) -> dict[str, int]:
    return {str(path): path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file() and path.name != ".lock"}


def test_a_long_budget_uses_all_windows_each_once(recipe, tmp_path):
    result = run(recipe(), tmp_path / "run", progress=False)
    assert result.learning_curve.stop is Stop.WINDOWS
    assert sizes(result) == [16, 24, 36, 46]
    numbers = drawn_windows(tmp_path / "run")
    assert sorted(numbers) == list(range(46))
    assert numbers[:6] == list(range(40, 46))  # validation first
    assert numbers[6:] != sorted(numbers[6:])
    assert read_stage(tmp_path / "run" / "head").facts["pairs"] == 46
    assert list(result.seconds) == ["lm", "windows", "learning_curve", "negatives", "head", "perplexity"]


def test_a_flat_curve_stops(recipe, tmp_path):
    windows = {"prefix": 6, "continuation": 5, **EASY_HUNDRED}
    result = run(recipe(energy=STATISTICS, windows=windows), tmp_path / "run", progress=False)
    curve = result.learning_curve
    assert curve.stop is Stop.CURVE
    assert curve.points[-1].fall < curve.points[-1].fall_std_error
    assert all(point.fall >= point.fall_std_error for point in curve.points[:-1] if point.pairs >= 32)
    assert sizes(result)[-1] < 108
    assert read_stage(tmp_path / "run" / "head").facts["pairs"] == sizes(result)[-1]


def test_the_clock_stops_before_the_budget_is_overdrawn(recipe, clock, tmp_path):
    """Parts have 4, 2, 3 and 3 shards: after 24 pairs 60 seconds are gone, and 36 would take 90."""
    result = run(recipe("89s"), tmp_path / "short", progress=False)
    assert result.learning_curve.stop is Stop.BUDGET
    assert sizes(result) == [16, 24]
    assert clock.seconds == 60
    assert sizes(run(recipe("90s"), tmp_path / "longer", progress=False)) == [16, 24, 36]
    assert sizes(run(recipe("1s"), tmp_path / "shortest", progress=False)) == [16]


def test_a_larger_budget_goes_on_and_a_finished_run_is_only_read(recipe, clock, tmp_path, monkeypatch):
    folder = tmp_path / "run"
    first = run(recipe("89s"), folder, progress=False)
    before = written(folder)
    monkeypatch.setattr(growing, "monotonic", lambda: pytest.fail("what is decided is not decided again"))
    again = run(recipe("89s"), folder, progress=False)
    assert written(folder) == before
    assert again.learning_curve == first.learning_curve
    monkeypatch.setattr(growing, "monotonic", clock)
    longer = run(recipe("60m"), folder, progress=False)
    assert sizes(longer) == [16, 24, 36, 46]
    assert longer.learning_curve.points[:2] == first.learning_curve.points
    assert clock.seconds == 120  # each shard was drawn once
    assert read_stage(folder / "head").facts["pairs"] == 46


@pytest.mark.parametrize("budget", ["89s", "60m"])
def test_killed_in_the_middle_of_a_part_it_ends_the_same(recipe, tmp_path, monkeypatch, budget):
    whole = run(recipe(budget), tmp_path / "whole", progress=False)
    with monkeypatch.context() as patch:
        patch.setattr(negatives, "_sample", killed_once(negatives._sample, 6))  # the second shard of the second part
        with pytest.raises(KeyboardInterrupt):
            run(recipe(budget), tmp_path / "killed", progress=False)
        killed = run(recipe(budget), tmp_path / "killed", progress=False)
    assert read_stage(tmp_path / "killed" / LEARNING_CURVE / "000024" / "negatives").attempts == 2
    assert killed.learning_curve == whole.learning_curve
    for name in ("negatives", "head", "perplexity"):
        ours, theirs = (read_stage(tmp_path / folder / name) for folder in ("killed", "whole"))
        assert (ours.key, ours.facts) == (theirs.key, theirs.facts)
    weights = [(tmp_path / folder / "head" / "model.safetensors").read_bytes() for folder in ("killed", "whole")]
    assert weights[0] == weights[1]


def test_the_pairs_are_those_that_a_recipe_with_as_many_has(recipe, tmp_path):
    """Whatever the budget, a window has the same negatives, and so many pairs are the same pairs."""
    recipes = {"grown": recipe("89s"), "plain": recipe(None, STATES | {"pairs": 18})}
    results = {name: run(own, tmp_path / name, progress=False) for name, own in recipes.items()}
    assert results["plain"].learning_curve is None
    found = {}
    for name, own in recipes.items():
        context, stage = RunContext(own, tmp_path / name), read_stage(tmp_path / name / "negatives")
        found[name] = negatives.contrastive_data(context, stage, context.features)
    train, validation = found["plain"]
    rows = negatives.chosen_pairs(context, len(train), 18)
    for ours, theirs in zip(found["grown"], (train.select(rows), validation), strict=True):
        assert torch.equal(ours.prefixes, theirs.prefixes)
        assert torch.equal(ours.continuations, theirs.continuations)
        assert torch.equal(ours.negatives, theirs.negatives)
        torch.testing.assert_close(ours.features, theirs.features, rtol=1e-4, atol=1e-4)
        torch.testing.assert_close(ours.negative_features, theirs.negative_features, rtol=1e-4, atol=1e-4)
    losses = [results[name].energies["head"].best_validation["loss"] for name in recipes]
    assert losses[0] == pytest.approx(losses[1], rel=1e-2)


def test_more_pairs_make_everything_after_them_anew(recipe, tmp_path):
    folder = tmp_path / "run"
    run(recipe("89s"), folder, progress=False)
    names = ("negatives", "head", "perplexity")
    before = {name: read_stage(folder / name).key for name in names}
    run(recipe("90s"), folder, progress=False)
    assert all(read_stage(folder / name).key != before[name] for name in names)


def test_a_reader_reads_each_text_once_for_the_curve(recipe, word_lm_folder, tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "TEXTS_PER_SHARD", 8)
    reader = {"kind": "fitted_reader", "source": str(word_lm_folder), "layers": [1], **PENALTIES}
    result = run(recipe(energy=reader), tmp_path / "run", progress=False)
    rows = [
        sum(parquet.read_metadata(path).num_rows for path in folder.glob("*.parquet"))
        for folder in sorted((tmp_path / "run" / LEARNING_CURVE).glob(f"*/loss/{reading.FEATURES_FOLDER}"))
    ]
    assert sizes(result)[-1] == sum(rows)
    assert rows[:2] == [16, 8]


def test_the_curve_is_told_and_shown(recipe, tmp_path, capsys):
    result = run(recipe("89s"), tmp_path / "run")
    point = result.learning_curve.points[-1]
    said = capsys.readouterr().err
    assert f"24 pairs: NCE loss {point.loss:.3f} ± {point.std_error:.3f}, {point.fall:.3f} ± " in said
    assert "no more than 24 pairs: the next part would not have ended within the budget" in said
    page = render_page(result)
    assert "How many pairs" in page
    assert f"<td>24</td><td>{point.loss:.3f}</td><td>{point.std_error:.3f}</td>" in page
    recorded = json.loads((tmp_path / "run" / "negatives" / "stage.json").read_text())["facts"]
    assert recorded["windows"] == recorded[LEARNING_CURVE]["points"][-1]["pairs"] == 24


def test_a_part_of_the_shards_has_no_budget(recipe, tmp_path):
    with doing_part(read_part("1/2")), pytest.raises(LexergyError, match="the budget of negatives is 60m and only a"):
        run(recipe(), tmp_path / "run", progress=False)
    assert not (tmp_path / "run").exists()
