"""Attacks change what they say, as often as they say, always alike; normalisation undoes those that it claims to."""

import re
import string

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from lexergy.data.detection.attacks import TEXT_ATTACKS
from lexergy.data.detection.attacks.spelling import NEIGHBOURS
from lexergy.data.detection.normalisation import LOOK_ALIKES, normalise
from lexergy.errors import LexergyError

QUICK = settings(max_examples=60, deadline=None)
WORDS = st.text(string.ascii_lowercase, min_size=1, max_size=9)
WORDS |= WORDS.map(str.capitalize)
PROSE = st.lists(st.tuples(WORDS, st.sampled_from(["", ",", "."])), min_size=2, max_size=12).map(
    lambda words: "So " + " ".join(word + mark for word, mark in words)
)
SHARES = st.floats(0.05, 1)
SEEDS = st.integers(0, 2**32)
TEXT = "Maj Richard Scott denies that he was driving fast, and the Weather was very bad that day in Wiltshire."


@pytest.mark.parametrize("name", [name for name, attack in TEXT_ATTACKS.items() if attack.is_undone])
@QUICK
@given(text=PROSE, strength=SHARES, seed=SEEDS)
def test_what_can_be_undone_is_undone_exactly(name, text, strength, seed):
    attacked = TEXT_ATTACKS[name].apply(text, strength, seed)
    if name == "homoglyphs":  # where no word is of both scripts nothing says that somebody disguised it
        pairs = zip(text.split(), attacked.split(), strict=True)
        assume(attacked == text or any(_is_mixed(word, disguised) for word, disguised in pairs))
    else:
        assert len(attacked) >= len(text)
    assert normalise(attacked).text == text


def _is_mixed(word, disguised):
    kept = [before == after for before, after in zip(word, disguised, strict=True) if before.isalpha()]
    return any(kept) and not all(kept)


@pytest.mark.parametrize("name", TEXT_ATTACKS)
def test_strength_is_a_share_and_the_seed_decides(name):
    apply = TEXT_ATTACKS[name].apply
    assert apply(TEXT, 0, 1) == TEXT
    assert apply(TEXT, 0.5, 1) == apply(TEXT, 0.5, 1)
    assert len({apply(TEXT, 0.5, seed) for seed in range(5)}) > 1
    with pytest.raises(LexergyError, match="`strength` is 2"):
        apply(TEXT, 2, 1)
    assert apply("", 1, 0) == ""


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("homoglyphs", lambda text: sum(letter in LOOK_ALIKES for letter in text)),
        ("zero-width", lambda text: text.count("\u200b")),
        ("doubled-blanks", lambda text: text.count("  ")),
        ("line-breaks", lambda text: text.count("\n")),
        ("no-break-blanks", lambda text: text.count("\u00a0")),
        ("upper-case", lambda text: len(re.findall(r"\b[A-Z]+\b", text))),
        ("lower-case", lambda text: 5 - len(re.findall("[A-Z]", text))),
        ("neighbouring-keys", lambda text: _changed_words(text)),
        ("swapped-letters", lambda text: _changed_words(text)),
    ],
)
def test_as_many_places_are_changed_as_asked(name, count):
    apply = TEXT_ATTACKS[name].apply
    everywhere = count(apply(TEXT, 1.0, 0))
    assert everywhere > 4
    assert count(apply(TEXT, 0.5, 0)) == round(0.5 * everywhere)
    assert count(apply(TEXT, 1e-9, 0)) == 1


def _changed_words(text):
    return sum(before != after for before, after in zip(TEXT.split(), text.split(), strict=True))


def test_slips_are_those_of_fingers():
    assert {key: set(keys) for key, keys in NEIGHBOURS.items() if key in "qgm"} == {
        "q": set("wa"),
        "g": set("fhtyvb"),
        "m": set("njk"),
    }
    assert all(key in NEIGHBOURS[beside] for key, keys in NEIGHBOURS.items() for beside in keys)
    for before, after in zip(TEXT.split(), TEXT_ATTACKS["swapped-letters"].apply(TEXT, 1, 0).split(), strict=True):
        assert sorted(before) == sorted(after)
        assert before[0] == after[0]
