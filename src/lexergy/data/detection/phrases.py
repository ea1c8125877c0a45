"""Which words and pairs of neighbouring words a text has; what it is about is left out as far as it can be.

Common words and marks stand for themselves, names and numbers for their kind, other words for their ending:
"The Danes were rowing to 12 islands." is `the Name were -ing to 0 -s .`
"""

import re
from collections.abc import Container
from itertools import pairwise
from typing import NamedTuple

NAME, NUMBER = "Name", "0"
_WORD = re.compile(r"[A-Za-z]+(?:'[A-Za-z]+)*|\d+(?:[.,]\d+)*|[.,;:!?()]")
_ENDINGS = ("ing", "ed", "ly", "tion", "ness", "ment", "ity", "ous", "ive", "able", "al", "er", "est", "s")
_SENTENCE_ENDS = ".!?"


class Phrase(NamedTuple):
    """A word or a pair of them, which ends before a character of the text."""

    name: str
    end: int


def phrases_of(text: str, common: Container[str]) -> list[Phrase]:
    """The words of a text as `plain_text` gives it, then its pairs, joined by `_`; `common` words in small letters."""
    words = words_of(text, common)
    return words + [Phrase(f"{one.name}_{other.name}", other.end) for one, other in pairwise(words)]


def words_of(text: str, common: Container[str]) -> list[Phrase]:
    words = []
    begins_sentence = True
    for match in _WORD.finditer(text):
        words.append(Phrase(_name(match.group(), common, begins_sentence), match.end()))
        begins_sentence = match.group() in _SENTENCE_ENDS
    return words


def _name(word: str, common: Container[str], begins_sentence: bool) -> str:
    if word[0].isdigit():
        return NUMBER
    small = word.lower()
    is_name = word[0].isupper() and not begins_sentence and small.partition("'")[0] != "i"
    if is_name or not word[0].isalpha():
        return NAME if is_name else word
    if small in common:
        return small
    return "-" + next((ending for ending in _ENDINGS if small.endswith(ending)), "")
