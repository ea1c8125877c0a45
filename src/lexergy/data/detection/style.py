"""What kind of text it is, in numbers that say little of who wrote it."""

import math
import re
from typing import NamedTuple

_SENTENCE = re.compile(r"[.!?]+(?=\s|[\"')]|$)")


class Style(NamedTuple):
    """Of one text."""

    length: float  # log of words
    word_length: float  # letters per word
    sentence_length: float  # log of words per sentence
    capitals: float  # share of words that begin with one
    digits: float  # per word
    commas: float
    marks: float  # quotes, brackets, colons, dashes per word


def style_of(text: str) -> Style:
    """The style of a text as `plain_text` gives it."""
    words = text.split()
    count = max(1, len(words))
    sentences = max(1, len(_SENTENCE.findall(text)))
    return Style(
        length=math.log(count),
        word_length=sum(map(str.isalpha, text)) / count,
        sentence_length=math.log(count / sentences),
        capitals=sum(word[:1].isupper() for word in words) / count,
        digits=sum(map(str.isdigit, text)) / count,
        commas=text.count(",") / count,
        marks=len(re.findall(r"[\"()\[\]:;-]", text)) / count,
    )
