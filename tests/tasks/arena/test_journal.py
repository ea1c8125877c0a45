"""Rows survive a kill, and what a kill cut short is no row."""

import json
import os

from lexergy.tasks.arena.journal import Journal


def test_a_torn_row_is_cut_off_before_the_next(tmp_path):
    journal = Journal(tmp_path / "votes.jsonl")
    journal.append({"choice": "first", "text": "é\u2028"})
    with journal.path.open("ab") as file:
        file.write(b'{"choice": "sec')
    assert journal.rows() == [{"choice": "first", "text": "é\u2028"}]
    journal.append({"choice": "tie"})
    assert [row["choice"] for row in journal.rows()] == ["first", "tie"]
    assert all(json.loads(line) for line in journal.path.read_text().strip().split("\n"))


def test_a_row_is_flushed_before_append_returns(tmp_path, monkeypatch):
    flushed = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: flushed.append(os.fstat(descriptor).st_size))
    journal = Journal(tmp_path / "votes.jsonl")
    journal.append({"a": 1})
    assert flushed == [journal.path.stat().st_size]
