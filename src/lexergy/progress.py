"""Progress on stderr: a live bar in a terminal, a plain line now and then in a log."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Protocol

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Column

LINE_SHARE = 0.1
LINE_SECONDS = 15.0
SHORTEST_SECONDS_BETWEEN_LINES = 1.0


class Bar(Protocol):
    def advance(self, n: int = 1, **values: float | str) -> None:
        """Count `n` more as done and show `values` (loss=0.4, accuracy=0.8) from now on."""


class _SilentBar:
    def advance(self, n: int = 1, **values: float | str) -> None:
        return None


class _LiveBar:
    def __init__(self, progress: Progress, task: TaskID) -> None:
        self._progress = progress
        self._task = task
        self._values: dict[str, float | str] = {}

    def advance(self, n: int = 1, **values: float | str) -> None:
        self._values.update(values)
        self._progress.update(self._task, advance=n, values=format_values(self._values))


class _LineBar:
    """A line per tenth of the work or per 15 seconds, at most one a second."""

    def __init__(self, label: str, total: int | None, completed: int) -> None:
        self._label = label
        self._total = total
        self._completed = self._printed = completed
        self._started = self._printed_at = time.monotonic()
        self._values: dict[str, float | str] = {}

    def advance(self, n: int = 1, **values: float | str) -> None:
        self._completed += n
        self._values.update(values)
        waited = time.monotonic() - self._printed_at
        tenth = self._total is not None and self._completed - self._printed >= LINE_SHARE * self._total
        if waited >= LINE_SECONDS or (tenth and waited >= SHORTEST_SECONDS_BETWEEN_LINES):
            self.print_line()

    def close(self) -> None:
        """The last line, unless it has been printed already."""
        if self._printed != self._completed or self._printed_at == self._started:
            self.print_line()

    def print_line(self) -> None:
        self._printed, self._printed_at = self._completed, time.monotonic()
        of_total = "" if self._total is None else f"/{self._total}"
        seconds = self._printed_at - self._started
        values = format_values(self._values)
        line = f"{self._label} {self._completed}{of_total} {seconds:.0f}s {values}"
        print(line.rstrip(), file=sys.stderr, flush=True)


@contextmanager
def progress_bar(label: str, total: int | None, enabled: bool = True, *, completed: int = 0) -> Iterator[Bar]:
    """Show how far a piece of work is; `completed` is what an earlier, killed run had done already.

    with progress_bar("negatives", total=len(shards)) as bar:
        for shard in shards:
            bar.advance(1, tokens_per_second=rate)
    """
    if not enabled:
        yield _SilentBar()
    elif sys.stderr.isatty() and not _console().is_dumb_terminal:
        with _rich_progress() as progress:
            task = progress.add_task(label, total=total, completed=completed, values="")
            yield _LiveBar(progress, task)
    else:
        bar = _LineBar(label, total, completed)
        yield bar
        bar.close()


_counting: ContextVar[Bar | None] = ContextVar("counting", default=None)


@contextmanager
def counted(label: str, total: int, enabled: bool = True) -> Iterator[None]:
    """A bar for work in whose depths `count` is called, by those who need not know who is watching."""
    with progress_bar(label, total, enabled) as bar:
        token = _counting.set(bar)
        try:
            yield
        finally:
            _counting.reset(token)


def count(n: int) -> None:
    """Count `n` more as done, if somebody is watching."""
    bar = _counting.get()
    if bar is not None:
        bar.advance(n)


def format_values(values: dict[str, float | str]) -> str:
    """`loss 0.396  accuracy 0.84`: three significant digits are enough to watch."""
    shown = (value if isinstance(value, str) else f"{value:.3g}" for value in values.values())
    return "  ".join(f"{name.replace('_', ' ')} {text}" for name, text in zip(values, shown, strict=True))


@cache
def _console() -> Console:
    return Console(stderr=True)


def _rich_progress() -> Progress:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[values]}", table_column=Column(ratio=1, no_wrap=True)),
    )
    # stdout belongs to results: it is not redirected through the bar.
    return Progress(*columns, console=_console(), redirect_stdout=False, expand=True)
