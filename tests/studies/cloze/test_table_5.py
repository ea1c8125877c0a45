"""Table 5 of Electric: what it concludes from given numbers, and end to end on tiny models."""

from dataclasses import replace

import pytest
import yaml

from lexergy.cli.main import run_command
from lexergy.core.estimation.findings import Verdict
from lexergy.core.rescoring import Comparison, Weight
from lexergy.report.pages.study import write_study
from lexergy.studies.cloze import table_5
from lexergy.studies.cloze.table_5 import PARTS, STUDY, Seen
from lexergy.studies.cloze.workspace import ELECTRIC, NOISE
from lexergy.studies.reproduce import reproduce
from lexergy.studies.study import Size
from lexergy.tasks.cloze.rescoring import System


def seen(**rates):
    """Rates on test by row, all pairs half as wide as a point."""
    names = {"first_pass": table_5.FIRST_PASS, "electric": ELECTRIC, "noise": NOISE}
    systems = {
        names[row]: System(row, (Weight(0.3, 0.5),) if row != "first_pass" else (), dev=rate + 1, test=rate)
        for row, rate in rates.items()
    }
    against = {
        (first, second): Comparison(difference, difference - 0.25, difference + 0.25, 0.1)
        for first in systems
        for second in systems
        for difference in [systems[first].test - systems[second].test]
    }
    return Seen(systems, dict.fromkeys(systems, "20"), against)


def test_the_paper_s_rates_stand_beside_ours_and_findings_are_judged():
    evidence = [
        {"clean": seen(first_pass=7.0, electric=6.0, noise=6.1), "other": seen(first_pass=20, electric=21, noise=18)}
    ]
    conclusion = STUDY.conclude(evidence)
    verdicts = {finding.sentence: finding.verdict for finding in conclusion.findings}
    assert list(verdicts.values()) == [
        *(Verdict.HOLDS, Verdict.DOES_NOT_HOLD),  # better than the recogniser, on clean and other speech
        *(Verdict.NOT_DECIDED, Verdict.DOES_NOT_HOLD),  # better than its noise
    ]
    rates, differences, weights = conclusion.tables
    rows = {row[0]: row[2:] for row in rates.rows}
    assert rows[ELECTRIC] == (7.0, 4.97, 22.0, 16.23, 6.0, 5.18, 21.0, 16.93)
    assert rows["ELECTRA-TT"] == (None, 5.05, None, 16.27, None, 5.22, None, 17.01)
    assert differences.rows[0] == (ELECTRIC, -1.0, -1.25, -0.75, 1.0, 0.75, 1.25)
    assert weights.rows[0] == (ELECTRIC, "0.3", "0.5", "0.3", "0.5")


def test_seeds_are_averaged():
    evidence = [{part: seen(first_pass=7.0, electric=6.0 + shift) for part in PARTS} for shift in (0.0, 0.1, 0.2)]
    conclusion = STUDY.conclude(evidence)
    assert {row[0]: row[6] for row in conclusion.tables[0].rows}[ELECTRIC] == pytest.approx(6.1)
    finding = conclusion.findings[0]
    assert finding.estimate.value == pytest.approx(0.9)
    assert finding.verdict == Verdict.HOLDS


@pytest.fixture
def study(nbest_files, cloze_run, own_cache, monkeypatch):
    pytest.importorskip("pocketsphinx")
    lists = {f"{split}-{part}": nbest_files[split] for split in ("dev", "test") for part in PARTS}
    monkeypatch.setattr(table_5, "librispeech_nbest", lambda: lists)
    settings = {"keep": 1, "causal": str(cloze_run / "masked-lm"), "causal_dev_utterances": 2}
    return replace(STUDY, sizes={"cpu": Size("unused", settings)})


def test_end_to_end(study, cloze_recipe_file, tmp_path):
    recipe = yaml.safe_load(cloze_recipe_file.read_text())
    recipe["models"] = {name: recipe["models"][name] for name in ("electric", "electra-tt")}
    path = tmp_path / "tiny.yaml"
    path.write_text(yaml.safe_dump(recipe))
    pages = []
    for place in ("first", "again"):
        result = reproduce("electric-table-5", study, recipe=path, runs=tmp_path / "runs", progress=False)
        pages.append(write_study(result, tmp_path / place, "the command").page.read_text())
    assert pages[0] == pages[1]
    rows = [row[0] for row in result.conclusion.tables[0].rows]
    for name in (ELECTRIC, "ELECTRA-TT", NOISE, "trigram LM, tuned", "causal LM, tuned", "all together"):
        assert name in rows
    assert result.circumstances.measuring_seconds > 0


def test_a_recipe_without_electric(cloze_recipe_file, tmp_path, capsys):
    recipe = yaml.safe_load(cloze_recipe_file.read_text())
    recipe["models"] = {"two-tower": recipe["models"]["two-tower"]}
    path = tmp_path / "towers.yaml"
    path.write_text(yaml.safe_dump(recipe))
    assert run_command(["reproduce", "electric-table-5", "--recipe", str(path)]) == 2
    assert "has no model of the kind `electric`" in capsys.readouterr().err
