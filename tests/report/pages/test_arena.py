"""The arena's page: nothing that a model wrote is markup, and the numbers are those of the tables."""

import csv
import os
import re

import pytest

from lexergy.report.pages.arena import interval, preference_table, write_arena_report
from lexergy.tasks.arena.continuations import Continued, Material
from lexergy.tasks.arena.making import make_study
from lexergy.tasks.arena.results import analyse
from lexergy.tasks.arena.sessions import Sessions
from lexergy.tasks.arena.study import Rules, StudyFolder
from lexergy.tasks.arena.votes import judged_votes
from toys.arena import play, write_study
from toys.runs import HOSTILE


@pytest.fixture(autouse=True)
def quick_disk(monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


def report_of(folder, out):
    study, judged = folder.read(), judged_votes(folder)
    result = analyse(study, judged)
    return result, write_arena_report(study, judged, result, out).read_text()


def test_three_systems_and_their_files(tmp_path, no_drawing):
    pytest.importorskip("choix")
    systems = ("weak", "middle", "strong")
    folder = write_study(tmp_path / "study", pairs=24, qualifying=0, systems=systems, rules=Rules(pages=12))
    sessions = Sessions(folder)
    for seed in range(6):
        play(sessions, f"a{seed}", seed, rate=0.9)
    result, page = report_of(folder, tmp_path / "out")
    assert len(preference_table(result).rows) == 3
    assert "people prefer strong" in page
    assert interval(result.pairs[1].preference) in page
    names = {path.name for path in (tmp_path / "out").glob("*.csv")}
    assert names == {"rates.csv", "annotators.csv", "pairs.csv", "votes.csv", "strengths.csv"}
    with (tmp_path / "out" / "strengths.csv").open() as rows:
        assert [row["system"] for row in csv.DictReader(rows)] == ["strong", "middle", "weak"]
    with (tmp_path / "out" / "pairs.csv").open() as rows:
        pairs = list(csv.DictReader(rows))
    counted = sum(int(row["baseline_votes"]) + int(row["compared_votes"]) + int(row["ties"]) for row in pairs)
    assert counted == sum(pair.num_votes for pair in result.pairs)


def test_what_models_write_stays_text(tmp_path, no_drawing):
    pairs = [Continued(f"{HOSTILE} {number}", "d", {"a": HOSTILE, "b": f"{HOSTILE}!"}) for number in range(4)]
    folder = StudyFolder(tmp_path / "study")
    study = make_study(HOSTILE, Material(("a", "b"), pairs, [], [], {}), Rules(question=HOSTILE), 0)
    folder.write(study)
    sessions = Sessions(folder)
    for name in ("anna", "ben"):
        sessions.consent(name)
        sessions.standing(name)
        for slot, row in enumerate(folder.pages.rows()[-1]["slots"]):
            sessions.vote(name, 1, slot, "first" if row["swapped"] else "second")
    _, page = report_of(folder, tmp_path / "out")
    assert "<script" not in page
    assert page.count("&lt;script&gt;") >= 4
    assert not re.search(r'src="(?!data:)', page)
