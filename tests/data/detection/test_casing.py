"""Capitals are put right where they are surely wrong, and left alone elsewhere."""

import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lexergy.data.detection.attacks import TEXT_ATTACKS
from lexergy.data.detection.casing import recased

PROSE = (
    'The minister said that nothing had been decided. "We will wait," she said, and I believed her. The BBC and NASA '
    "were told at noon, and so was the council. It's a small town, and the UK is not."
)
WITHOUT_NAMES = PROSE.replace("BBC", "bbc").replace("NASA", "nasa").replace("UK", "uk")


@pytest.mark.parametrize("text", [PROSE, PROSE.lower()])
def test_ordinary_prose_stays(text):
    assert recased(text) == (text, 0)


@pytest.mark.parametrize(
    "disguise",
    [
        str.upper,
        lambda text: "".join(letter.upper() if place % 2 else letter.lower() for place, letter in enumerate(text)),
    ],
)
def test_a_whole_text_becomes_sentences(disguise):
    found = recased(disguise(PROSE))
    assert found.text == WITHOUT_NAMES
    assert found.words > 0


@pytest.mark.parametrize("seed", range(5))
def test_some_words_in_capitals_become_small(seed):
    attacked = TEXT_ATTACKS["upper-case"].apply(PROSE, 0.3, seed)
    before, after = (sum(word.isupper() for word in text.split()) for text in (attacked, recased(attacked).text))
    assert after < before / 2


def test_a_name_is_as_elsewhere():
    assert recased("THE mayor of Bath spoke. In BATH it RAINED, and THE mayor left.").text == (
        "The mayor of Bath spoke. In Bath it rained, and the mayor left."
    )


def test_a_single_word_in_capitals_is_somebodys_own():
    text = "I told her NOT to go, and NATO agreed."
    assert recased(text).text == text


@settings(max_examples=200, deadline=None)
@given(st.one_of(st.text(), st.lists(st.text(string.ascii_letters + "'.", min_size=1, max_size=5)).map(" ".join)))
def test_twice_is_once(text):
    once = recased(text).text
    assert recased(once).text == once
