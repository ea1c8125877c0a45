"""Habits against counts made by hand."""

import math

import pytest

from lexergy.data.detection.habits import Habits, habits_of, variety

TEXT = (
    'She isn\'t late, and the bus (a very old one) is not new but running. "Who asked?" I walked to an office of '
    "the Administration; that was all!"
)


def test_counts_by_hand():
    found = habits_of(TEXT, 40)
    words = len(TEXT.split())
    lengths = [15, 2, 11]
    mean = sum(lengths) / 3
    counts = {
        "commas": 1,
        "semicolons": 1,
        "brackets": 1,
        "questions": 1,
        "exclamations": 1,
        "ing": 1,
        "contractions": 1,
        "not_but": 1,
        "the": 2,
        "articles": 2,
        "of": 1,
        "conjunctions": 1,
        "intensifiers": 1,
        "be": 2,
        "relatives": 2,
    }
    assert {name: round(getattr(found, name) * words) for name in counts} == counts
    assert found.sentence_length == pytest.approx(math.log(mean))
    assert found.unevenness == pytest.approx(math.sqrt(sum((own - mean) ** 2 for own in lengths) / 3) / mean)
    assert found.long_words == pytest.approx(1 / words)
    assert found.tokens == 40 / len(TEXT)


def test_variety_is_the_share_of_different_words_in_fifty():
    assert variety([str(place % 25) for place in range(400)]) == 0.5
    assert variety(["a", "b", "a", "b"]) == 0.5
    assert variety([]) == 0


def test_a_text_of_nothing_has_habits_too():
    assert all(map(math.isfinite, habits_of("", 0)))
    assert len(habits_of("One.", 2)) == len(Habits._fields)
