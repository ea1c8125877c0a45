"""Sides are balanced, every pair is asked as often as it should be, and pages are made as the paper makes them."""

from collections import Counter

import numpy as np
import pytest

from lexergy.tasks.arena.ballots import all_ballots, balanced_sides, next_page, qualifying_pages
from lexergy.tasks.arena.making import make_study
from lexergy.tasks.arena.study import Rules
from toys.arena import material


@pytest.fixture
def study():
    return make_study("toy", material(), Rules(), 0)


@pytest.mark.parametrize(("comparisons", "votes"), [(10, 3), (11, 3), (10, 4), (1, 1)])
def test_sides_are_balanced_within_pairs_and_over_all(comparisons, votes):
    sides = balanced_sides(comparisons, votes, 5)
    assert abs(2 * sides.sum() - sides.size) <= (votes % 2)
    assert (np.abs(2 * sides.sum(1) - votes) <= votes % 2).all()
    assert not np.array_equal(balanced_sides(40, 3, 1), balanced_sides(40, 3, 2))


def test_every_pair_is_asked_three_times_in_rounds(study):
    ballots = all_ballots(study)
    pairs = [pair.id for pair in study.of_kind("pair")]
    for first in (0, 24, 48):
        assert sorted(ballot.comparison for ballot in ballots[first : first + 24]) == pairs
    assert [ballot.comparison for ballot in ballots[:24]] != pairs
    assert all_ballots(study) == ballots


def test_the_qualifying_round_is_the_same_for_all_but_for_order_and_sides(study):
    rounds = [qualifying_pages(study, name) for name in ("anna", "ben")]
    for pages in rounds:
        assert [len(page) for page in pages] == [4, 4]
        slots = [slot for page in pages for slot in page]
        assert {slot.comparison for slot in slots} == {entry.id for entry in study.of_kind("qualifying")}
        assert sum(slot.swapped for slot in slots) == 4
    assert rounds[0] != rounds[1]


def test_pages_have_three_pairs_and_a_check_and_now_and_then_a_repetition(study):
    ballots, earlier, seen, kinds = all_ballots(study), [], set(), Counter()
    prompts = {entry.id: entry.prompt for entry in study.comparisons}
    checks = {entry.id for entry in study.of_kind("check")}
    for number in range(1, 6):
        taken = {slot.ballot for page in earlier for slot in page}
        page = next_page(study, "anna", earlier, [b for b in ballots if b.number not in taken], seen)
        assert len(page) == 4
        assert sum(slot.comparison in checks for slot in page) == 1
        kinds[number] = sum(slot.repeats for slot in page)
        seen |= {prompts[slot.comparison] for slot in page}
        earlier.append(page)
    assert kinds == {1: 0, 2: 0, 3: 0, 4: 0, 5: 1}
    fresh = [slot for page in earlier for slot in page if slot.ballot is not None]
    assert len({prompts[slot.comparison] for slot in fresh}) == len(fresh) == 14
    [again] = [slot for slot in earlier[-1] if slot.repeats]
    [before] = [slot for page in earlier[:3] for slot in page if slot.comparison == again.comparison]
    assert again.swapped is not before.swapped
    assert len({slot.comparison for page in earlier[:4] for slot in page if slot.comparison in checks}) == 4


def test_nothing_left_for_somebody_who_has_seen_all_prompts(study):
    seen = {entry.prompt for entry in study.comparisons}
    assert next_page(study, "anna", [], all_ballots(study), seen) == []
