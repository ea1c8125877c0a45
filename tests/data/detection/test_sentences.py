"""Sentences and their writers at known places."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lexergy.data.detection.sentences import sentences, spliced, without_shared_beginning

PEOPLE = "One of them sang. Two kept bees! Three came home? Four. Five went on."
MACHINE = "It is so. It was so. It will be so. It may be so."


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (PEOPLE, ["One of them sang.", "Two kept bees!", "Three came home?", "Four.", "Five went on."]),
        ('He said "so." And went', ['He said "so."', "And went"]),
        ("Mr. Scott, J. Reed: 3.5 miles. \n\nIt rained.", ["Mr. Scott, J. Reed: 3.5 miles.", "It rained."]),
        ("etc. and so on", ["etc. and so on"]),
        ("  none at all ", ["none at all"]),
        ("", []),
    ],
)
def test_sentences_end_where_they_should(text, parts):
    shown = [text[start:end] for start, end in sentences(text)]
    assert shown == parts


@settings(max_examples=100, deadline=None)
@given(st.text(alphabet="aA .!?\n\"'"))
def test_sentences_hold_all_but_blanks_in_order(text):
    parts = [text[start:end] for start, end in sentences(text)]
    assert "".join("".join(parts).split()) == "".join(text.split())
    assert all(part == part.strip() and part for part in parts)


@pytest.mark.parametrize("host_is_machine", [True, False])
@pytest.mark.parametrize(("strength", "size"), [(0, 0), (0.4, 2), (0.8, 4), (1.0, 4)])
def test_a_run_of_sentences_is_the_guests_and_its_places_are_known(host_is_machine, strength, size):
    for seed in range(6):
        mixed = spliced(PEOPLE, MACHINE, host_is_machine, strength, seed)
        texts = [mixed.text[own.start : own.end] for own in mixed.sentences]
        assert [mixed.text[start:end] for start, end in sentences(mixed.text)] == texts
        guests = [place for place, own in enumerate(mixed.sentences) if own.is_machine != host_is_machine]
        assert len(guests) == size
        assert guests == list(range(guests[0], guests[0] + size)) if guests else mixed.text == PEOPLE
        assert all((text in MACHINE) == (place in guests) for place, text in enumerate(texts))
    assert spliced(PEOPLE, MACHINE, True, 0.4, 3) == spliced(PEOPLE, MACHINE, True, 0.4, 3)
    assert len({spliced(PEOPLE, MACHINE, True, 0.4, seed).text for seed in range(20)}) == 4 or size != 2


@pytest.mark.parametrize(
    ("text", "beside", "left"),
    [
        ("The man ran home. It is so. It was.", "The man ran off. He sang.", "It is so. It was."),
        ("It is so. It was.", "He sang.", "It is so. It was."),
        ("He sang.", "He sang. And more.", ""),
    ],
)
def test_what_both_begin_with_is_nobodys(text, beside, left):
    assert without_shared_beginning(text, beside) == left
