"""Each study end to end on a tiny run: files, resumption, and that nothing is measured twice."""

import csv
import dataclasses
import io
from pathlib import Path

import pytest

from lexergy.core.estimation.findings import Verdict
from lexergy.errors import LexergyError
from lexergy.recipes.loader import load_recipe
from lexergy.report.pages.study import command_line, write_study
from lexergy.studies import CATALOGUE
from lexergy.studies.reproduce import load_study, reproduce
from lexergy.studies.residual import samples
from lexergy.studies.residual.workspace import StudiedRun
from toys.kills import killed_once


def refuse(*arguments):
    raise AssertionError("measured again")


def bytes_of(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_every_study_is_in_the_catalogue():
    for name in CATALOGUE:
        study = load_study(name)
        assert set(study.sizes) == {"cpu", "paper"}
        for size in study.sizes.values():
            recipe = load_recipe(size.recipe, study.workspace.recipe)
            assert recipe.name == Path(size.recipe).name
            if "energy" in size.settings:
                assert size.settings["energy"] in recipe.energies


@pytest.mark.parametrize("name", [name for name, entry in CATALOGUE.items() if entry.module.startswith("residual.")])
def test_a_study_end_to_end(name, toy_studies, tmp_path, monkeypatch):
    result = toy_studies.reproduce(name)
    files = write_study(result, tmp_path / "first", "the command")
    page = files.page.read_text()
    assert page.startswith(f"# {result.title}\n")
    for part in (result.part, "`the command`", "recipe tiny", "energy bit", f"]({files.picture.name})"):
        assert part in page
    for finding in result.conclusion.findings:
        assert f"- **{finding.verdict}**: {finding.sentence}" in page
        # One repetition among few windows has no interval: NaN.
        assert not finding.estimate.low > finding.estimate.value
        assert not finding.estimate.high < finding.estimate.value
    assert files.picture.read_bytes().startswith(b"\x89PNG")
    for path, table in zip(files.tables, result.conclusion.tables, strict=True):
        head, *rows = csv.reader(io.StringIO(path.read_text()))
        assert len(head) == len(table.columns)
        assert rows == [["" if cell is None else str(cell) for cell in row] for row in table.rows]
        assert path.name in page
    monkeypatch.setattr(StudiedRun, "_measure", refuse)
    write_study(toy_studies.reproduce(name), tmp_path / "second", "the command")
    assert bytes_of(tmp_path / "first") == bytes_of(tmp_path / "second")


def test_several_seeds(toy_studies, tmp_path):
    result = toy_studies.reproduce("figure-2-left", seeds=(0, 1))
    page = write_study(result, tmp_path, "").page.read_text()
    assert "seeds 0, 1" in page
    assert "Student's t over 2 seeds" in page
    one = toy_studies.reproduce("figure-2-left", seeds=(1,))
    assert one.conclusion.tables != result.conclusion.tables
    assert {path.name for path in toy_studies.runs.iterdir()} >= {"tiny-seed0", "tiny-seed1"}


def test_a_killed_measurement_goes_on(toy_studies, tmp_path, monkeypatch):
    """Two shards; the second one fails at first, and only it is made later."""
    whole = toy_studies.reproduce("figure-3").conclusion
    rows = killed_once(samples.rows, 2)
    monkeypatch.setattr(samples, "rows", rows)
    study, runs = toy_studies.study("figure-3"), toy_studies.copy(tmp_path / "runs")
    with pytest.raises(KeyboardInterrupt):
        reproduce("figure-3", study, runs=runs, progress=False)
    resumed = reproduce("figure-3", study, runs=runs, progress=False)
    assert [ids for _, ids in rows.calls] == [range(8), range(8, 9), range(8, 9)]
    assert resumed.conclusion.tables == whole.tables


def test_other_settings_are_measured_anew(toy_studies, tmp_path, monkeypatch):
    study = toy_studies.study("figure-3")
    size = study.sizes["cpu"]
    runs = toy_studies.copy(tmp_path / "runs")
    reproduce("figure-3", study, runs=runs, progress=False)
    fewer = dataclasses.replace(size, settings={**size.settings, "windows": 5})
    monkeypatch.setattr(samples, "rows", refuse)
    with pytest.raises(AssertionError, match="measured again"):
        reproduce("figure-3", dataclasses.replace(study, sizes={"cpu": fewer}), runs=runs, progress=False)


def test_mistakes(toy_studies):
    with pytest.raises(LexergyError, match=r"no study `table-9`; expected one of table-1,"):
        load_study("table-9")
    with pytest.raises(LexergyError, match=r"`size` is huge; expected one of cpu"):
        toy_studies.reproduce("figure-1", size="huge")
    with pytest.raises(LexergyError, match=r"the recipe tiny has no energy `sum`; expected one of unit, bit"):
        toy_studies.reproduce("figure-1", energy="sum")


def test_other_settings_are_asked_for_by_name(toy_studies):
    page = toy_studies.reproduce("figure-3", changes={"windows": 5, "top_k": 4})
    assert page.circumstances.settings == {"energy": "bit", "windows": 5, "candidates": 12, "top_k": 4}
    with pytest.raises(LexergyError, match=r"no setting `window`; expected one of windows, candidates, top_k"):
        toy_studies.reproduce("figure-3", changes={"window": 5})
    with pytest.raises(LexergyError, match=r"the setting `windows` is 'few'; expected something like 9"):
        toy_studies.reproduce("figure-3", changes={"windows": "few"})


def test_the_command_that_makes_a_study_again():
    options = {"--seeds": "3", "--recipe": "my recipe.yaml", "--energy": None}
    assert command_line("figure-1", options) == "lexergy reproduce figure-1 --seeds 3 --recipe 'my recipe.yaml'"


def test_verdicts_are_those_of_the_issue():
    assert list(Verdict) == ["HOLDS", "DOES NOT HOLD", "NOT DECIDED"]
