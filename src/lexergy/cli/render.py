"""Results on stdout: JSON for programs, tables and wrapped text for people."""

import dataclasses
import json
import math
import os
import shlex
import shutil
import sys
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from lexergy.storage import addressed


def to_plain(value: Any) -> Any:
    """Dataclasses, tensors and paths as what JSON knows; NaN and infinities become null."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: to_plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if hasattr(value, "model_dump"):
        return to_plain(value.model_dump(mode="json"))
    if hasattr(value, "tolist"):
        return to_plain(value.tolist())
    if hasattr(value, "_asdict"):
        return to_plain(value._asdict())
    if isinstance(value, Mapping):
        return {str(key): to_plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [to_plain(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Path):
        return addressed(value)
    return value


def print_json(value: Any) -> None:
    print(json.dumps(to_plain(value), indent=2, ensure_ascii=False, allow_nan=False))


def print_table(
    title: str,
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    text_columns: Collection[int] = (0,),
) -> None:
    """A table whose `text_columns` read from the left and whose others align as numbers."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for position, column in enumerate(columns):
        is_text = position in text_columns
        table.add_column(column, justify="left" if is_text else "right", no_wrap=not is_text, overflow="fold")
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    console = _console()
    console.print(Text(title, style="bold"))
    console.print(table)


def print_passage(title: str, text: str) -> None:
    """A heading and a text below it, indented; nothing in the text is read as markup."""
    from rich.padding import Padding
    from rich.text import Text

    console = _console()
    console.print(Text(title, style="bold"))
    console.print(Padding(Text(visible(text)), (0, 0, 1, 2)))


def print_paragraphs(*texts: str) -> None:
    """Sentences, wrapped to the terminal, with a blank line after the last."""
    from rich.text import Text

    console = _console()
    for text in texts:
        console.print(Text(text))
    console.print()


def print_lines(*lines: str) -> None:
    """Lines as they are: no wrapping, so that a path or a command can be copied."""
    for line in lines:
        print(addressed(line))


def plural(number: int, noun: str) -> str:
    """`1 seed`, `2 seeds`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def lexergy_command() -> str:
    """How the person can call Lexergy: by its name, or as they did where its environment is not active."""
    if shutil.which("lexergy"):
        return "lexergy"
    called = Path(sys.argv[0])
    if called.name == "lexergy":
        return shlex.quote(os.path.relpath(called))
    return f"{shlex.quote(sys.executable)} -m lexergy"


def visible(text: str) -> str:
    """Text that cannot drive the terminal: control characters other than line ends become blanks."""
    return "".join(letter if letter.isprintable() or letter == "\n" else " " for letter in text)


def _console():  # type: ignore[no-untyped-def]
    from rich.console import Console

    return Console(highlight=False, soft_wrap=False)
