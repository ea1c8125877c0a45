"""From votes to a result: what is dropped, what is recovered, and what the tables say."""

import os

import numpy as np
import pytest

from lexergy.errors import LexergyError
from lexergy.tasks.arena.results import analyse
from lexergy.tasks.arena.sessions import Sessions
from lexergy.tasks.arena.study import Rules
from lexergy.tasks.arena.votes import judged_votes
from toys.arena import play, write_study


@pytest.fixture(autouse=True)
def quick_disk(monkeypatch):
    """Hundreds of votes are flushed here, and nothing is killed."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


def analysed(folder):
    return analyse(folder.read(), judged_votes(folder))


def test_a_known_preference_is_recovered(tmp_path):
    folder = write_study(tmp_path, pairs=120, rules=Rules(bar=0.5, pages=10))
    sessions = Sessions(folder)
    for seed in range(15):
        play(sessions, f"a{seed}", seed, rate=0.7, ties=0.1)
    [pair] = analysed(folder).pairs
    expected = 0.9 * 0.7 + 0.1 * 0.5
    assert pair.preference.low <= expected <= pair.preference.high
    assert pair.preference.low > 0.5
    assert pair.preference.half_width < 0.12
    assert pair.num_votes == 360
    assert pair.ties == pytest.approx(0.1, abs=0.05)
    assert pair.rates.num_sentences == 120
    assert pair.rates.less_rate > 0.6
    assert pair.rates.less_p_value < 0.01
    assert pair.rates.less_or_equal_rate > pair.rates.less_rate
    assert -0.1 < pair.alpha.value < 0.4


def test_the_preference_is_for_the_second_system(tmp_path):
    folder = write_study(tmp_path, rules=Rules(bar=0.5, pages=8))
    play(Sessions(folder), "anna", 0, rate=0.0)
    [pair] = analysed(folder).pairs
    assert (pair.baseline, pair.compared) == ("weak", "strong")
    assert pair.preference.value == pair.rates.less_rate == 0
    assert pair.rates.less_p_value == 1


def test_votes_of_the_careless_are_dropped(tmp_path):
    folder = write_study(tmp_path, qualifying=0, rules=Rules(pages=6))
    sessions = Sessions(folder)
    play(sessions, "careful", 0, rate=1.0)
    play(sessions, "careless", 1, rate=0.0, skill=0.0)
    result = analysed(folder)
    assert result.pairs[0].preference.value == 1
    assert result.statuses["check failed"] == result.annotators[1].votes > 0
    assert result.annotators[1].kept == result.annotators[1].checks_passed == 0
    assert result.annotators[0].kept == result.annotators[0].votes


def test_votes_of_those_who_did_not_qualify_and_of_unchecked_pages_are_dropped(tmp_path):
    folder = write_study(tmp_path, rules=Rules(pages=6))
    sessions = Sessions(folder)
    sessions.hand_out_all("anna")  # as in a file, where everybody judges all pages
    sessions.hand_out_all("dora")
    study = folder.read()
    for name, skill in (("anna", 1.0), ("dora", 0.0)):
        answers_all_pages(sessions, study, name, skill)
    judged = judged_votes(folder)
    assert judged.qualified.accuracies == {"anna": 1.0, "dora": 0.0}
    assert {vote.annotator for vote in judged.kept()} == {"anna"}
    assert {vote.status for vote in judged.of_kind("pair") if vote.annotator == "dora"} == {"not qualified"}
    sessions.hand_out_all("cleo")
    answers_all_pages(sessions, study, "cleo", 1.0, kinds=("qualifying", "pair"))
    statuses = {vote.status for vote in judged_votes(folder).of_kind("pair") if vote.annotator == "cleo"}
    assert statuses == {"check not answered"}


def answers_all_pages(sessions, study, name, skill, kinds=("qualifying", "check", "pair")):
    rows = [row for row in sessions.folder.pages.rows() if row["annotator"] == name]
    kind_of = {entry.id: entry.kind for entry in study.comparisons}
    for number, row in enumerate(rows, start=1):
        for slot, shown in enumerate(row["slots"]):
            if kind_of[shown["comparison"]] in kinds:
                right = "second" if shown["swapped"] else "first"
                sessions.vote(name, number, slot, right if skill else {"first": "second", "second": "first"}[right])


def test_only_the_last_vote_on_a_comparison_counts(tmp_path):
    folder = write_study(tmp_path, qualifying=0, checks=0, pairs=3, rules=Rules(votes=1))
    sessions = Sessions(folder)
    play(sessions, "anna", 0, rate=0.0)
    assert analysed(folder).pairs[0].preference.value == 0
    for slot, row in enumerate(folder.pages.rows()[0]["slots"]):
        sessions.vote("anna", 1, slot, "first" if row["swapped"] else "second")
    result = analysed(folder)
    assert result.pairs[0].preference.value == 1
    assert result.pairs[0].num_votes == 3


def test_position_bias_and_consistency(tmp_path):
    folder = write_study(tmp_path, pairs=120, qualifying=0, rules=Rules(pages=10, repeat_every=2))
    sessions = Sessions(folder)
    for seed in range(12):
        play(sessions, f"a{seed}", seed, rate=0.5, first=0.6)
    biased = analysed(folder)
    assert biased.first.low <= 0.8 <= biased.first.high
    assert biased.first.low > 0.6
    assert biased.consistent.value < 0.5  # who goes by the side contradicts themselves when sides are swapped
    assert biased.pairs[0].preference.low < 0.5 < biased.pairs[0].preference.high  # sides are balanced

    folder = write_study(tmp_path / "fair", pairs=120, qualifying=0, rules=Rules(pages=10, repeat_every=2))
    sessions = Sessions(folder)
    for seed in range(12):
        play(sessions, f"a{seed}", seed, rate=1.0)
    fair = analysed(folder)
    assert fair.first.low < 0.5 < fair.first.high
    assert fair.consistent.value == 1
    assert fair.pairs[0].alpha.value != fair.pairs[0].alpha.value  # NaN: nobody ever differed


def test_three_systems_are_ranked(tmp_path):
    pytest.importorskip("choix")
    systems = ("weak", "middle", "strong")
    folder = write_study(tmp_path, pairs=40, qualifying=0, systems=systems, rules=Rules(pages=20))
    sessions = Sessions(folder)
    for seed in range(12):
        play(sessions, f"a{seed}", seed, rate=0.75)
    result = analysed(folder)
    assert [(pair.baseline, pair.compared) for pair in result.pairs] == [
        ("weak", "middle"),
        ("weak", "strong"),
        ("middle", "strong"),
    ]
    values = [result.strengths[system].value for system in systems]
    assert values == sorted(values)
    assert sum(values) == pytest.approx(0)
    # Every stronger system wins three votes of four, whichever it is: s of P = 1 / (1 + exp(-(s_i - s_j))) is least-
    # squares close to (-d, 0, d) with d between log(3) / 2 and log(3).
    strong = result.strengths["strong"]
    assert 0.55 < strong.value < 1.1
    assert strong.low > result.strengths["weak"].high
    assert 0 < strong.half_width < 0.6


def test_votes_on_another_study_are_refused(tmp_path):
    folder = write_study(tmp_path / "a", qualifying=0)
    smaller = write_study(tmp_path / "b", qualifying=0, pairs=5)
    play(Sessions(folder), "anna", 0, pages=1)
    play(Sessions(smaller), "anna", 0, pages=1)
    with pytest.raises(LexergyError, match="give the votes of this study only"):
        judged_votes(folder, [smaller.votes.path])
    lost = tmp_path / "lost.jsonl"
    lost.write_text(folder.votes.path.read_text().replace('"page": 1', '"page": 9'))
    with pytest.raises(LexergyError, match="does not have"):
        judged_votes(folder, [lost])


def test_without_votes_there_is_nothing_to_say(tmp_path):
    result = analysed(write_study(tmp_path))
    assert np.isnan(result.pairs[0].preference.value)
    assert result.annotators == ()
