"""Training text without what the test text holds: shared n-grams of words."""

import re
from collections.abc import Iterable
from dataclasses import replace

from lexergy.data.corpora import Document

NGRAM = 8  # words
WORD = re.compile(r"[a-z']+")


def word_ngrams(texts: Iterable[str], size: int = NGRAM) -> set[tuple[str, ...]]:
    """All runs of `size` words of the texts; case and punctuation do not count."""
    return {ngram for text in texts for ngram in _ngrams(_words(text), size)}


def without_overlap(
    documents: list[Document], forbidden: set[tuple[str, ...]], size: int = NGRAM
) -> tuple[list[Document], int]:
    """The documents without the lines that hold, or share, a forbidden n-gram, and how many lines that were."""
    kept, removed = [], 0
    for document in documents:
        lines = document.text.split("\n")
        words = [(word, number) for number, line in enumerate(lines) for word in _words(line)]
        touched: set[int] = set()
        for start, ngram in enumerate(_ngrams([word for word, _ in words], size)):
            if ngram in forbidden:
                touched |= {number for _, number in words[start : start + size]}
        removed += len(touched)
        rest = "\n".join(line for number, line in enumerate(lines) if number not in touched)
        if not touched:
            kept.append(document)
        elif rest.strip():
            kept.append(replace(document, text=rest))
    return kept, removed


def _words(text: str) -> list[str]:
    return WORD.findall(text.lower().replace("\u2019", "'"))


def _ngrams(words: list[str], size: int) -> Iterable[tuple[str, ...]]:
    return zip(*(words[offset:] for offset in range(size)), strict=False)
