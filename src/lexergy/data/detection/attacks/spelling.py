"""Capitals and slips of the finger, as people make them."""

import re

import numpy as np

from lexergy.data.detection.attacks.places import LONG_WORD, WORD, matches, replaced

_ROWS = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
_KEYS = {key: (row, column) for row, keys in enumerate(_ROWS) for column, key in enumerate(keys)}
NEIGHBOURS = {
    key: "".join(
        beside
        for beside, (its_row, its_column) in _KEYS.items()
        if (its_row == row and abs(its_column - column) == 1)
        or (its_row == row + 1 and its_column in (column - 1, column))  # each row is half a key to the right
        or (its_row == row - 1 and its_column in (column, column + 1))
    )
    for key, (row, column) in _KEYS.items()
}
"""The keys beside each on a QWERTY keyboard."""
_CAPITALISED = re.compile(r"[A-Za-z]*[A-Z][A-Za-z]*")


def upper_case(text: str, strength: float, seed: int) -> str:
    """Whole words in capitals."""
    return replaced(text, matches(WORD, text), strength, seed, lambda word, _: word.upper())


def lower_case(text: str, strength: float, seed: int) -> str:
    """Words without capitals."""
    return replaced(text, matches(_CAPITALISED, text), strength, seed, lambda word, _: word.lower())


def neighbouring_keys(text: str, strength: float, seed: int) -> str:
    """One letter of a word, not the first, is that of a key beside its own."""
    return replaced(text, matches(LONG_WORD, text), strength, seed, _mistyped)


def swapped_letters(text: str, strength: float, seed: int) -> str:
    """Two neighbouring letters of a word that differ, not the first, change places."""
    return replaced(text, matches(LONG_WORD, text), strength, seed, _swapped)


def _mistyped(word: str, generator: np.random.Generator) -> str:
    place = int(generator.integers(1, len(word)))
    keys = NEIGHBOURS[word[place].lower()]
    letter = keys[int(generator.integers(len(keys)))]
    return word[:place] + (letter.upper() if word[place].isupper() else letter) + word[place + 1 :]


def _swapped(word: str, generator: np.random.Generator) -> str:
    places = [place for place in range(1, len(word) - 1) if word[place] != word[place + 1]]
    if not places:
        return word
    place = places[int(generator.integers(len(places)))]
    return word[:place] + word[place + 1] + word[place] + word[place + 2 :]
