"""How a text is written, in numbers that do not depend on what it is about."""

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

WINDOW, STEP = 50, 5  # words among which different ones are counted
LONG = 9  # letters of a long word
_SENTENCE = re.compile(r"[.!?]+[\"')\]]*(?=\s|$)")
_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)*")
_CONTRACTION = re.compile(r"n't\b|'(?:re|ve|ll|d|m)\b")
_NOT_BUT = re.compile(r"\b[Nn]ot\b[^.]{1,60}\bbut\b")
_INTENSIFIERS = {"very", "really", "just", "quite", "pretty", "actually", "so"}
_BE = {"is", "are", "was", "were", "be", "been", "being"}
_RELATIVES = {"that", "which", "who"}


class Habits(NamedTuple):
    """Of one text; shares are of its words."""

    sentence_length: float  # log of the mean, in words
    unevenness: float  # deviation of the sentences' lengths over their mean
    commas: float
    semicolons: float
    brackets: float
    questions: float
    exclamations: float
    long_words: float
    variety: float  # share of different words in windows of fifty
    ing: float  # words that end so
    contractions: float
    not_but: float  # "not this but that"
    the: float
    articles: float  # a, an
    of: float
    conjunctions: float  # and
    intensifiers: float
    be: float
    relatives: float
    tokens: float  # of an LM per character: rare words have many


def habits_of(text: str, tokens: int) -> Habits:
    """Those of a text as `plain_text` gives it, which has so many tokens."""
    words = [word.lower() for word in _WORD.findall(text)]
    lengths = np.array([len(part.split()) for part in _SENTENCE.split(text) if part.split()] or [1], dtype=float)
    count = max(1, len(text.split()))

    def share(wanted: set[str]) -> float:
        return sum(word in wanted for word in words) / count

    return Habits(
        sentence_length=float(np.log(lengths.mean())),
        unevenness=float(lengths.std() / lengths.mean()),
        commas=text.count(",") / count,
        semicolons=text.count(";") / count,
        brackets=text.count("(") / count,
        questions=text.count("?") / count,
        exclamations=text.count("!") / count,
        long_words=sum(len(word) >= LONG for word in words) / max(1, len(words)),
        variety=variety(words),
        ing=sum(word.endswith("ing") for word in words) / count,
        contractions=len(_CONTRACTION.findall(text)) / count,
        not_but=len(_NOT_BUT.findall(text)) / count,
        the=share({"the"}),
        articles=share({"a", "an"}),
        of=share({"of"}),
        conjunctions=share({"and"}),
        intensifiers=share(_INTENSIFIERS),
        be=share(_BE),
        relatives=share(_RELATIVES),
        tokens=tokens / max(1, len(text)),
    )


def variety(words: Sequence[str]) -> float:
    """The share of different words, a mean over windows of equal size (Covington and McFall 2010)."""
    size = min(WINDOW, len(words))
    if size == 0:
        return 0.0
    starts = range(0, len(words) - size + 1, STEP)
    return float(np.mean([len(set(words[start : start + size])) / size for start in starts]))
