"""Capitals put right: a text, or some of its words, in capitals, or in both by turns."""

import re
from typing import NamedTuple

# In capitals these are no abbreviations; IT, US, WHO, IS and AM may be.
_SHORT = (
    "the and for was his her had not but you all one two out has him how its our now did get new see way day too any "
    "she of to in on as at by be an or he we so my do if up me"
)
_WORD = re.compile(r"[A-Za-z]+(?:'[A-Za-z]+)*")
_START = re.compile(r"(?:^|[.!?][\"')\]]*\s)[^A-Za-z]*(?=[A-Za-z])")  # what stands before a sentence
_SHORT_WORDS = frozenset(_SHORT.split())
_VOWEL = re.compile(r"[AEIOUY]")
_LONG = 4  # letters of a word that is not taken for an abbreviation
_SHOUTED = 2  # words that are surely in capitals without need
_MOSTLY, _FEWEST = 0.5, 8  # share of a text's words whose capitals are wrong, and words to tell that from


class Recased(NamedTuple):
    text: str
    words: int  # whose capitals were changed


def recased(text: str) -> Recased:
    """The text with capitals where prose has them, as far as that can be told; ordinary prose stays as it is.

    If most words are in capitals, or in both by turns, sentences begin with one and nothing else does but `I`: names
    are lost. If some words are in capitals that are no abbreviations, all long ones become small, or as the text writes
    them elsewhere. A text without capitals stays: many people write so.
    """
    words = _WORD.findall(text)
    if len(words) >= _FEWEST and _is_all_wrong(words):
        return _counted(text, _sentence_case(_WORD.sub(lambda match: match.group().lower(), text)))
    known = {word.lower(): word for word in reversed(words) if not word.isupper()}
    shouted = [
        word for word in words if len(word) > 1 and word.isupper() and word.lower() in _SHORT_WORDS | known.keys()
    ]
    return Recased(text, 0) if len(shouted) < _SHOUTED else _counted(text, _softened(text, known))


def _is_all_wrong(words: list[str]) -> bool:
    in_capitals, by_turns = (sum(map(own, words)) for own in (_is_in_capitals, _is_by_turns))
    return max(in_capitals, by_turns) > _MOSTLY * len(words)


def _is_in_capitals(word: str) -> bool:
    is_long = len(word) >= _LONG and _VOWEL.search(word) is not None
    return word.isupper() and (is_long or word.lower() in _SHORT_WORDS)


def _is_by_turns(word: str) -> bool:
    """As `wOrD`, or `tHe`."""
    return not (word.islower() or word.isupper() or word.istitle() or "'" in word)


def _softened(text: str, known: dict[str, str]) -> str:
    starts = {match.end() for match in _START.finditer(text)}

    def small(match: "re.Match[str]") -> str:
        word = match.group()
        if not (_is_in_capitals(word) or (len(word) > 1 and word.isupper() and word.lower() in known)):
            return word
        written = word.lower() if word.lower() in _SHORT_WORDS else known.get(word.lower(), word.lower())
        return written[0].upper() + written[1:] if match.start() in starts else written

    return _WORD.sub(small, text)


def _sentence_case(text: str) -> str:
    letters = list(re.sub(r"\bi\b", "I", text))
    for match in _START.finditer(text):
        letters[match.end()] = letters[match.end()].upper()
    return "".join(letters)


def _counted(before: str, after: str) -> Recased:
    pairs = zip(_WORD.findall(before), _WORD.findall(after), strict=True)
    return Recased(after, sum(one != other for one, other in pairs))
