"""Disguises are undone, and nothing else is touched."""

import string
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lexergy.data.detection.normalisation import LOOK_ALIKES, normalise

QUICK = settings(max_examples=150, deadline=None)
WORDS = st.text(string.ascii_lowercase, min_size=1, max_size=9)
WORDS |= WORDS.map(str.capitalize)
PROSE = st.lists(st.tuples(WORDS, st.sampled_from(["", ",", ".", "!", " -"])), min_size=1, max_size=12).map(
    lambda words: "So " + " ".join(word + mark for word, mark in words)
)
FOREIGN = [
    "Россия",
    "ухо",
    "сор",
    "рот",
    "нос",
    "Ελλάδα",
    "όχι",
    "και",
    "東京",
    "नमस्ते",
    "क्\u200dष",
    "می\u200cخواهم",
    "שלום",
    "ภาษา",
    "한국어",
    "Việt",
    "naïve",
    "Łódź",
]


def test_what_people_cannot_see_is_undone_and_told():
    disguised = "Th\u0435 \u0441at\u200b sa\u00ad\u2060t\u2003on \uff54\U0001d421e ﬁne m\u0430t."
    undone = normalise(disguised)
    assert undone.text == "The cat sat on the fine mat."
    assert undone.disguises == (
        "3 look-alike letters replaced",
        "3 invisible characters removed",
        "3 letter variants made plain",
        "1 unusual blank made plain",
    )


@QUICK
@given(st.text())
def test_twice_is_once(text):
    undone = normalise(text)
    again = normalise(undone.text)
    assert again.text == undone.text
    assert again.disguises == ()


@QUICK
@given(PROSE)
def test_plain_prose_is_left_alone(text):
    assert normalise(text).text == text
    assert normalise(text).disguises == ()


@QUICK
@given(st.lists(st.one_of(st.sampled_from(FOREIGN), WORDS), min_size=1, max_size=9))
def test_words_of_other_scripts_are_left_alone(words):
    text = " ".join(words)
    assert normalise(text).text == unicodedata.normalize("NFC", text)
    assert normalise(text).disguises == ()


@pytest.mark.parametrize(
    "text",
    [
        "TGF\u03b1 and 5 \u03bcm, a \u0394x of 10\u00b2 or \u00bd",
        "The word \u0443\u0445\u043e means ear.",  # of look-alikes alone, but nothing says that somebody disguised it
        "Two \U0001f469\u200d\U0001f4bb and a 1\ufe0f\u20e3 \U0001f3f4\U000e0067\U000e0062\U000e007f",
        "First paragraph.\n\nSecond one.",
        "",
    ],
)
def test_what_has_a_meaning_stays(text):
    assert normalise(text).text == text


def test_words_of_look_alikes_alone_follow_the_rest_of_the_text():
    lone, mixed, russian = "\u0430", "c\u0430t", "\u0436\u0443\u043a"
    assert normalise(f"It is {lone} {mixed}.").text == "It is a cat."
    assert normalise(f"It is {lone} {mixed}, {russian}.").text == f"It is {lone} cat, {russian}."
    assert normalise(f"{russian}cat").text == f"{russian}cat"


@pytest.mark.parametrize(
    ("stored", "plain"),
    [
        ("hard\nwrapped   prose \t here ", "hard wrapped prose here"),
        ("one\r\n\r\ntwo\n \n\nthree", "one\n\ntwo\n\nthree"),
        ("no\u202fbreak\u3000and\u2009thin", "no break and thin"),
    ],
)
def test_blanks_are_those_of_prose(stored, plain):
    assert normalise(stored).text == plain


def test_look_alikes_are_letters_of_the_same_case():
    assert all(letter.isupper() == latin.isupper() and latin.isascii() for letter, latin in LOOK_ALIKES.items())
    assert len(LOOK_ALIKES) == 45
