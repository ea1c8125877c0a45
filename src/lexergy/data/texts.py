"""Texts to be judged one by one; one that cannot be read is reported with its place and the reason."""

import io
import os
import select
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import IO

from lexergy.data.corpora import KNOWN_SUFFIXES, corpus_files, read_parquet
from lexergy.data.reading import (
    DELIMITERS,
    decode_text,
    lines_of,
    read_record,
    read_text,
    starts_with_object,
    suffix_of,
    table_rows,
    text_of,
)
from lexergy.errors import LexergyError

STDIN = "-"
SHOWN = 3  # of what cannot be read, named one by one
EMPTY = "It is empty; expected some text."
READ_BYTES = 2**16  # of a pipe at once


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
        if not source:
            raise LexergyError("The name of a file is empty; expected a path; `.` is this folder.")
        if source != STDIN and Path(source).is_dir():
            yield from map(str, corpus_files(Path(source), (*KNOWN_SUFFIXES, *DELIMITERS)))
        else:
            yield source


def read_texts(sources: Iterable[str], *, text_field: str = "text") -> Iterator[PlacedText | Unreadable]:
    """The texts of files: a text file is one text; JSONL, Parquet, CSV and TSV files have one in `text_field` of a row.

    `-` is standard input, text or JSONL, of which a line is yielded when it is there; a folder stands for the files
    below it; `.gz` is unpacked. What cannot be read is yielded as such, and the reading goes on.
    """
    return (entry for entry in arriving_texts(sources, text_field=text_field) if entry is not None)


def arriving_texts(sources: Iterable[str], *, text_field: str = "text") -> Iterator[PlacedText | Unreadable | None]:
    """The same, with None where whoever writes into standard input has not written the next text yet."""
    for source in sources:
        try:
            files = list(text_files([source]))
        except LexergyError as error:
            yield Unreadable(source, str(error))
            continue
        for file in files:
            is_empty = True
            for entry in _texts_of(file, text_field):
                is_empty = is_empty and entry is None
                yield entry
            if is_empty:
                yield Unreadable(file, EMPTY)


def _texts_of(name: str, text_field: str) -> Iterator[PlacedText | Unreadable | None]:
    try:
        if name.lower().endswith(".parquet"):
            yield from _rows(name, text_field)
        elif name == STDIN:
            yield from _piped(sys.stdin.buffer, text_field)
        elif name.removesuffix(".gz").endswith(".jsonl"):
            yield from _records(name, lines_of(Path(name)), text_field)
        elif suffix_of(Path(name)) in DELIMITERS:
            yield from _table(name, text_field)
        else:
            yield _checked(name, read_text(Path(name)))
    except LexergyError as error:
        yield Unreadable(name, str(error))
    except OSError as error:
        yield Unreadable(name, f"{error.strerror}; check the path and its permissions.")


def _rows(name: str, text_field: str) -> Iterator[PlacedText | Unreadable]:
    for number, record in enumerate(read_parquet(Path(name), text_field), start=1):
        yield _checked(f"{name}:{number}", text_of(record, text_field, f"row {number}"))


def _table(name: str, text_field: str) -> Iterator[PlacedText | Unreadable]:
    for line, record in table_rows(Path(name), text_field):
        yield _checked(f"{name}:{line}", record[text_field] or "")


def _piped(pipe: IO[bytes], text_field: str) -> Iterator[PlacedText | Unreadable | None]:
    lines, first = _lines_as_written(pipe), b""
    while not first.strip():
        line = next(lines, b"")
        if line is None:
            yield None
        elif line:
            first += line
        else:
            break
    begun = decode_text(first, "Standard input")
    if starts_with_object(begun):
        decoded = (None if line is None else decode_text(line, "Standard input").removesuffix("\n") for line in lines)
        yield from _records(STDIN, chain(begun.split("\n")[:-1] or [begun], decoded), text_field)
    else:
        rest = b"".join(line for line in lines if line is not None)
        yield _checked(STDIN, decode_text(first + rest, "Standard input"))


def _lines_as_written(pipe: IO[bytes]) -> Iterator[bytes | None]:
    """Lines with their ends; None before it waits for somebody to write on."""
    try:
        descriptor = pipe.fileno()
    except io.UnsupportedOperation:  # it lies in memory
        yield from pipe
        return
    begun: list[bytes] = []  # of a line without its end
    while True:
        if not select.select([descriptor], [], [], 0)[0]:
            yield None
        part = os.read(descriptor, READ_BYTES)
        if not part:
            break
        *ends, rest = part.split(b"\n")
        for end in ends:
            yield b"".join((*begun, end, b"\n"))
            begun = []
        if rest:
            begun.append(rest)
    if begun:
        yield b"".join(begun)


def _records(name: str, lines: Iterable[str | None], text_field: str) -> Iterator[PlacedText | Unreadable | None]:
    number = 0
    for line in lines:
        number += line is not None
        if line is None:
            yield None
        elif line.strip():
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
    return PlacedText(place, text) if text.strip() else Unreadable(place, EMPTY)
