"""Sentences with a label for each word: columns as CoNLL has them, or a sentence per line."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from lexergy.data.reading import numbered_lines
from lexergy.data.texts import Unreadable
from lexergy.errors import LexergyError

DOCUMENT_START = "-DOCSTART-"
CONLLU_COLUMNS = 10
CONLLU_NUMBER = re.compile(r"\d+([-.]\d+)?")
FORM, UPOS = 1, 3  # columns of CoNLL-U
OUTSIDE = "O"


@dataclass(frozen=True)
class TaggedSentence:
    """Words and their labels, None where a file has none; `place` is the file and line of the first word."""

    place: str
    words: tuple[str, ...]
    labels: tuple[str, ...] | None


class Row(NamedTuple):
    """A line's number and its columns."""

    number: int
    cells: list[str]


def parse_conll(
    text: str, name: str, labelled: bool = True, word_column: int | None = None, label_column: int | None = None
) -> Iterator[TaggedSentence | Unreadable]:
    """The sentences of a file with a word per line, in columns separated by tabs, or else by blanks.

    A blank line ends a sentence, and so does a line that begins with -DOCSTART-. Most lines of a file have one number
    of columns; a sentence with a line of another number is unreadable, unless that line begins with `#`: it is a
    comment. Of CoNLL-U, which is told by its ten columns and its numbers, multiword tokens (1-2) and empty words (1.1)
    are left out. `name` is the file's, for the places.

    Columns count from 0, negative ones from the end. Words stand in the first and labels in the last, in CoNLL-U in
    those of forms and universal parts of speech, unless said otherwise.
    """
    blocks = list(sentence_blocks(text))
    if not blocks:
        return
    width = Counter(len(row.cells) for block in blocks for row in block).most_common(1)[0][0]
    regular = [row for block in blocks for row in block if len(row.cells) == width]
    is_conllu = width == CONLLU_COLUMNS and all(CONLLU_NUMBER.fullmatch(row.cells[0]) for row in regular)
    word = _column(word_column, FORM if is_conllu else 0, width, f"word column of `{name}`")
    label = _column(label_column, UPOS if is_conllu else -1, width, f"label column of `{name}`") if labelled else None
    if word == label:
        raise LexergyError(
            f"words and labels of `{name}` would both be read from column {word} of {width}; expected two columns: "
            "does the file lack labels, or has it a sentence per line?"
        )
    for block in blocks:
        kept = [row for row in block if len(row.cells) == width or not row.cells[0].startswith("#")]
        if is_conllu:
            kept = [row for row in kept if len(row.cells) != width or row.cells[0].isdecimal()]
        if kept:
            yield _sentence(kept, width, word, label, name)
        else:
            yield Unreadable(f"{name}:{block[0].number}", "The sentence has no words.")


def parse_lines(text: str, name: str, labelled: bool = True) -> Iterator[TaggedSentence | Unreadable]:
    """The sentences of a file with one per line: words, a tab, labels, both separated by blanks."""
    for number, line in numbered_lines(text):
        place = f"{name}:{number}"
        cells = line.split("\t")
        words = tuple(cells[0].split())
        labels = tuple(cells[-1].split()) if len(cells) > 1 else ()
        if not words:
            yield Unreadable(place, "The sentence has no words.")
        elif not labelled:
            yield TaggedSentence(place, words, None)
        elif len(cells) != 2:
            yield Unreadable(place, f"It has {len(cells)} columns; expected words, a tab and their labels.")
        elif len(words) != len(labels):
            yield Unreadable(place, f"It has {len(words)} words and {len(labels)} labels; expected as many of both.")
        else:
            yield TaggedSentence(place, words, labels)


def sentence_blocks(text: str) -> Iterator[list[Row]]:
    """The lines between two that are empty or start a document, in columns."""
    block: list[Row] = []
    for row in _rows(text):
        if block and row.number != block[-1].number + 1:
            yield block
            block = []
        if row.cells[0] != DOCUMENT_START:
            block.append(row)
    if block:
        yield block


def to_iob2(labels: Sequence[str]) -> tuple[str, ...]:
    """Labels of entities in IOB2, where each begins with B-, from IOB1, where only one that follows another of its
    type does. Labels in IOB2 stay as they are."""
    converted = []
    previous = OUTSIDE
    for label in labels:
        begins = label.startswith("I-") and previous[1:] != label[1:]
        converted.append(f"B{label[1:]}" if begins else label)
        previous = label
    return tuple(converted)


def _column(chosen: int | None, usual: int, width: int, what: str) -> int:
    column = usual if chosen is None else chosen
    if not -width <= column < width:
        raise LexergyError(f"the {what} is {column}; expected 0 to {width - 1}, since its lines have {width} columns.")
    return column % width


def _rows(text: str) -> list[Row]:
    """The lines that are not empty, in columns; tabs separate them where most lines have one."""
    lines = list(numbered_lines(text))
    if 2 * sum("\t" in line for _, line in lines) > len(lines):
        return [Row(number, line.split("\t")) for number, line in lines]
    return [Row(number, re.split(r"[ \t]+", line.strip())) for number, line in lines]


def _sentence(rows: Sequence[Row], width: int, word: int, label: int | None, name: str) -> TaggedSentence | Unreadable:
    for number, cells in rows:
        place = f"{name}:{number}"
        if len(cells) != width:
            return Unreadable(place, f"It has {len(cells)} columns; expected {width}, as most lines have.")
        if not cells[word].strip() or (label is not None and not cells[label].strip()):
            return Unreadable(place, "The word or its label is empty.")
    words = tuple(row.cells[word].strip() for row in rows)
    labels = None if label is None else tuple(row.cells[label].strip() for row in rows)
    return TaggedSentence(f"{name}:{rows[0].number}", words, labels)
