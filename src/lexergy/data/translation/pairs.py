"""Sentence pairs of two languages, split so that neither side of a pair is met again on the other side of the split."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from lexergy.data.corpora import Document
from lexergy.data.folder import locate
from lexergy.data.splits import split_documents
from lexergy.data.texts import Unreadable, named
from lexergy.errors import LexergyError


class Pair(NamedTuple):
    """A sentence and its translation."""

    source: str
    target: str


class PairSplits(NamedTuple):
    train: list[Pair]
    validation: list[Pair]
    test: list[Pair]


class PairFile(NamedTuple):
    """What was read of a file."""

    pairs: list[Pair]
    unreadable: list[Unreadable]

    def messages(self) -> list[str]:
        """A warning that counts what could not be read and names the first few."""
        if not self.unreadable:
            return []
        total = len(self.pairs) + len(self.unreadable)
        return [f"warning: {len(self.unreadable)} of {total} pairs left out: {named(self.unreadable)}"]


def load_pairs(path: str | Path, *, source_column: int = 0, target_column: int = 1) -> PairFile:
    """The pairs of a file with one per line, tab-separated, as Tatoeba's are; further columns are left alone.

    A line without both sides is left out, and named; an error where no pair is left.
    """
    try:
        lines = locate(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not UTF-8"
        raise LexergyError(
            f"the sentence pairs {path} cannot be read ({reason}); expected a text file with tabs."
        ) from None
    pairs, unreadable = [], []
    for number, line in enumerate(lines, start=1):
        cells = [cell.strip() for cell in line.split("\t")]
        if len(cells) <= max(source_column, target_column):
            reason = f"columns: {len(cells)}; expected at least {max(source_column, target_column) + 1}, between tabs."
            unreadable.append(Unreadable(f"{path}:{number}", reason))
        elif not (cells[source_column] and cells[target_column]):
            unreadable.append(Unreadable(f"{path}:{number}", "a side is empty."))
        else:
            pairs.append(Pair(cells[source_column], cells[target_column]))
    if not pairs:
        reasons = f": {named(unreadable)}" if unreadable else "; it is empty."
        raise LexergyError(f"`{path}` holds no pair of sentences that can be read{reasons}")
    return PairFile(pairs, unreadable)


def split_pairs(pairs: Sequence[Pair], *, validation: float, test: float, seed: int) -> PairSplits:
    """Split pairs so that no sentence of either language is in two parts, whatever its case and punctuation.

    A sentence has several translations and these have others: pairs that are linked by a sentence, however far, go
    together (connected components). `validation` and `test` are shares of such groups.
    """
    groups = linked_groups(pairs)
    documents = [
        Document(id=f"{number:09d}", text="\t".join(pair), group=str(group), metadata={"pair": pair})
        for number, (pair, group) in enumerate(zip(pairs, groups, strict=True))
    ]
    splits = split_documents(documents, validation=validation, test=test, seed=seed)
    return PairSplits(
        *([document.metadata["pair"] for document in part] for part in (splits.train, splits.validation, splits.test))
    )


def linked_groups(pairs: Sequence[Pair]) -> list[int]:
    """The number of each pair's group of pairs that share sentences."""
    numbers: dict[tuple[str, str], int] = {}
    sources = [numbers.setdefault(("source", plain_words(pair.source)), len(numbers)) for pair in pairs]
    targets = [numbers.setdefault(("target", plain_words(pair.target)), len(numbers)) for pair in pairs]
    links = coo_array((np.ones(len(pairs)), (sources, targets)), shape=(len(numbers), len(numbers)))
    _, components = connected_components(links, directed=False)
    return [int(group) for group in components[sources]]


def plain_words(sentence: str) -> str:
    """A sentence without case and punctuation."""
    return " ".join(re.findall(r"\w+", sentence.casefold()))
