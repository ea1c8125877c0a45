"""Texts to be judged one by one; one that cannot be read is reported with its place and the reason."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from lexergy.data.corpora import corpus_files, read_parquet
from lexergy.data.reading import decode_text, lines_of, read_record, read_text, starts_with_object, text_of
from lexergy.errors import LexergyError

STDIN = "-"
SHOWN = 3  # of what cannot be read, named one by one


@dataclass(frozen=True)
class PlacedText:
    """A text and where it stands: a file, or a file and the line of its JSON object."""

    place: str
    text: str


@dataclass(frozen=True)
class Unreadable:
    """A text that cannot be judged, and why."""

    place: str
    reason: str


def named(unreadable: Sequence[Unreadable]) -> str:
    """The first few, with their places."""
    shown = " ".join(f"{entry.place}: {entry.reason}" for entry in unreadable[:SHOWN])
    return shown if len(unreadable) <= SHOWN else f"{shown} And {len(unreadable) - SHOWN} more."


def text_files(sources: Iterable[str]) -> Iterator[str]:
    """The files that sources name, those below a folder one by one."""
    for source in sources:
        if source != STDIN and Path(source).is_dir():
            yield from map(str, corpus_files(Path(source)))
        else:
            yield source


def read_texts(sources: Iterable[str], *, text_field: str = "text") -> Iterator[PlacedText | Unreadable]:
    """The texts of files: a text file is one text; a JSONL or Parquet file has one in `text_field` of each line or row.

    `-` is standard input, text or JSONL; a folder stands for the files below it; `.gz` is unpacked. What cannot be
    read is yielded as such, and the reading goes on.
    """
    for source in sources:
        try:
            files = list(text_files([source]))
        except LexergyError as error:
            yield Unreadable(source, str(error))
            continue
        for file in files:
            yield from _texts_of(file, text_field)


def _texts_of(name: str, text_field: str) -> Iterator[PlacedText | Unreadable]:
    try:
        if name.lower().endswith(".parquet"):
            yield from _rows(name, text_field)
        elif name != STDIN and name.removesuffix(".gz").endswith(".jsonl"):
            yield from _records(name, lines_of(Path(name)), text_field)
        else:
            yield from _texts(name, _content(name), text_field)
    except LexergyError as error:
        yield Unreadable(name, str(error))
    except OSError as error:
        yield Unreadable(name, f"{error.strerror}; check the path and its permissions.")


def _rows(name: str, text_field: str) -> Iterator[PlacedText | Unreadable]:
    for number, record in enumerate(read_parquet(Path(name), text_field), start=1):
        yield _checked(f"{name}:{number}", text_of(record, text_field, f"row {number}"))


def _content(name: str) -> str:
    return decode_text(sys.stdin.buffer.read(), "Standard input") if name == STDIN else read_text(Path(name))


def _texts(name: str, content: str, text_field: str) -> Iterator[PlacedText | Unreadable]:
    if name == STDIN and starts_with_object(content):
        yield from _records(name, content.split("\n"), text_field)
    else:
        yield _checked(name, content)


def _records(name: str, lines: Iterable[str], text_field: str) -> Iterator[PlacedText | Unreadable]:
    for number, line in enumerate(lines, start=1):
        if line.strip():
            yield _record(f"{name}:{number}", line, text_field)


def _record(place: str, line: str, text_field: str) -> PlacedText | Unreadable:
    try:
        record = read_record(line, "The line", text_field)
        return _checked(place, text_of(record, text_field, "the line"))
    except LexergyError as error:
        return Unreadable(place, str(error))


def _checked(place: str, text: str) -> PlacedText | Unreadable:
    if "\0" in text:
        return Unreadable(place, "It holds NUL bytes; expected text, not a binary file.")
    return PlacedText(place, text) if text.strip() else Unreadable(place, "It is empty; expected some text.")
