"""Rows that are on the disk once `append` returns, whatever happens to the process after it."""

import json
import os
from pathlib import Path
from typing import Any

from lexergy.data.reading import numbered_lines, read_object, read_text


class Journal:
    """A JSONL file that only grows. One process writes it; a row that a kill cut short was never confirmed."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def append(self, row: dict[str, Any]) -> None:
        """Write one row and wait until the disk has it."""
        line = json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n"
        descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            _cut_torn_row(descriptor)
            remaining = memoryview(line.encode("utf-8"))
            while remaining:
                remaining = remaining[os.write(descriptor, remaining) :]
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def rows(self) -> list[dict[str, Any]]:
        """All that was appended, in order."""
        return read_rows(self.path) if self.path.exists() else []


def read_rows(path: Path) -> list[dict[str, Any]]:
    """The rows of a JSONL file; a last line without an end is none yet."""
    text = read_text(path)
    whole = text[: text.rfind("\n") + 1]
    return [read_object(line, f"{path}:{number}") for number, line in numbered_lines(whole)]


def _cut_torn_row(descriptor: int) -> None:
    """Remove what a killed writer left after the last line end."""
    size = os.fstat(descriptor).st_size
    if size == 0 or os.pread(descriptor, 1, size - 1) == b"\n":
        return
    content = os.pread(descriptor, size, 0)
    os.ftruncate(descriptor, content.rfind(b"\n") + 1)
