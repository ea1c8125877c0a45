"""Annotators from consent to the end: resuming, going back, the better half, votes that are asked for once."""

from collections import Counter

import pytest

from lexergy.errors import LexergyError
from lexergy.tasks.arena.qualifying import close_qualifying
from lexergy.tasks.arena.sessions import LEASE_SECONDS, Sessions, Standing
from lexergy.tasks.arena.study import Rules
from lexergy.tasks.arena.votes import finished_qualifying
from toys.arena import play, write_study


def ballots_of(folder):
    return Counter(slot["ballot"] for row in folder.pages.rows() for slot in row["slots"] if slot["ballot"] is not None)


def test_the_better_half_go_on(tmp_path):
    folder = write_study(tmp_path)
    sessions = Sessions(folder)
    skills = {"anna": 1.0, "ben": 0.9, "cleo": 0.2, "dora": 0.0}
    assert sessions.standing("anna") is Standing.CONSENT
    for seed, (name, skill) in enumerate(skills.items()):
        assert play(sessions, name, seed, skill=skill) is Standing.WAITING
    result = close_qualifying(folder, finished_qualifying(folder))
    assert [name for name in skills if result.passed(name)] == ["anna", "ben"]
    assert play(sessions, "anna", 0, pages=1) is Standing.JUDGING
    assert sessions.standing("dora") is Standing.NOT_QUALIFIED
    assert play(sessions, "late", 9, skill=0.0) is Standing.NOT_QUALIFIED


def test_with_a_bar_people_go_on_at_once(tmp_path):
    folder = write_study(tmp_path, rules=Rules(bar=0.6, pages=3))
    sessions = Sessions(folder)
    assert play(sessions, "anna", 0) is Standing.FINISHED
    assert sessions.num_pages("anna") == sessions.all_pages() == 5
    assert play(sessions, "dora", 1, skill=0.0) is Standing.NOT_QUALIFIED
    with pytest.raises(LexergyError, match=r"bar 0\.6"):
        close_qualifying(folder, finished_qualifying(folder))


def test_every_vote_is_asked_for_once_and_no_prompt_twice_of_one_person(tmp_path):
    folder = write_study(tmp_path, qualifying=0, rules=Rules(pages=20))
    sessions = Sessions(folder)
    for seed, name in enumerate(["anna", "ben", "cleo"]):
        assert play(sessions, name, seed) is Standing.FINISHED
    assert set(ballots_of(folder).values()) == {1}
    assert len(ballots_of(folder)) == 72
    for name in ("anna", "ben", "cleo"):
        rows = [row for row in folder.pages.rows() if row["annotator"] == name]
        fresh = [slot["comparison"] for row in rows for slot in row["slots"] if slot["ballot"] is not None]
        assert len(set(fresh)) == len(fresh) == 24
    assert play(sessions, "dora", 3) is Standing.FINISHED  # nothing is left
    assert sessions.num_pages("dora") == 0


def test_a_session_goes_on_where_it_was(tmp_path):
    folder = write_study(tmp_path, qualifying=0)
    sessions = Sessions(folder)
    play(sessions, "anna", 0, pages=2)
    sessions.vote("anna", 3, 1, "tie")
    sessions.vote("anna", 1, 0, "second")  # back on the first page
    again = Sessions(folder)
    assert again.num_pages("anna") == 3
    assert again.standing("anna") is Standing.JUDGING
    for number in (1, 2, 3):
        assert again.shown("anna", number) == sessions.shown("anna", number)
    assert again.shown("anna", 3)["choices"] == [None, "tie", None, None]
    assert again.shown("anna", 1)["choices"][0] == "second"


def test_what_somebody_left_behind_is_asked_of_others(tmp_path):
    now = [0.0]
    folder = write_study(tmp_path, qualifying=0, pairs=3, rules=Rules(votes=1))
    sessions = Sessions(folder, clock=lambda: now[0])
    sessions.consent("anna")
    assert sessions.standing("anna") is Standing.JUDGING
    answered = next(slot for slot, row in enumerate(folder.pages.rows()[0]["slots"]) if row["ballot"] is not None)
    sessions.vote("anna", 1, answered, "first")
    now[0] = LEASE_SECONDS - 1
    assert play(sessions, "ben", 1) is Standing.FINISHED
    assert sessions.num_pages("ben") == 0
    now[0] = LEASE_SECONDS + 1
    play(sessions, "ben", 1)
    assert sorted(ballots_of(folder).values()) == [1, 2, 2]


def test_what_is_shown_does_not_say_who_wrote_it(tmp_path):
    folder = write_study(tmp_path, qualifying=0)
    sessions = Sessions(folder)
    sessions.consent("anna")
    sessions.standing("anna")
    page = sessions.shown("anna", 1)
    assert set(page) == {"number", "is_qualifying", "comparisons", "choices"}
    assert {key for entry in page["comparisons"] for key in entry} == {"prompt", "first", "second"}
    row = folder.pages.rows()[0]
    texts = {entry.id: dict(zip(entry.systems, entry.texts, strict=True)) for entry in sessions.study.comparisons}
    for entry, slot, (first, second) in zip(page["comparisons"], row["slots"], row["sides"], strict=True):
        assert texts[slot["comparison"]] == {first: entry["first"], second: entry["second"]}


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("anna", 1, 7, "first"), "no comparison 7"),
        (("anna", 1, 0, "both"), "expected one of first, second"),
        (("anna", 1, 0, "tie"), "expected one of first, second."),
        (("anna", 2, 0, "first"), "no page 2"),
        (("ben", 1, 0, "first"), "no page 1"),
    ],
)
def test_mistaken_votes(tmp_path, arguments, told):
    folder = write_study(tmp_path, qualifying=0, rules=Rules(ties=False))
    sessions = Sessions(folder)
    sessions.consent("anna")
    sessions.standing("anna")
    with pytest.raises(LexergyError, match=told):
        sessions.vote(*arguments)
    assert folder.votes.rows() == []


@pytest.mark.parametrize("name", ["", "a b", "x" * 65, "../etc", "<b>"])
def test_names_of_annotators(tmp_path, name):
    sessions = Sessions(write_study(tmp_path))
    with pytest.raises(LexergyError, match="expected 1 to 64"):
        sessions.consent(name)


def test_a_study_that_people_have_seen_is_left_alone(tmp_path):
    folder = write_study(tmp_path)
    folder.write(folder.read())
    play(Sessions(folder), "anna", 0, pages=1)
    with pytest.raises(LexergyError, match="judged the study"):
        folder.write(folder.read())
