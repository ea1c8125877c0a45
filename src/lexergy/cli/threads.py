"""How many threads compute, and how long those that have nothing to do spin before they sleep.

OpenMP's threads spin for milliseconds at the end of each parallel region. On a quiet machine that is quickest; beside
other work they take the processor from the very thread they wait for, and a command takes six times as long. Spinning
for a tenth of a millisecond bridges the gaps between a model's layers and costs nothing elsewhere
(`benchmarks/threads.py`).
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer
from typer.models import CommandInfo

from lexergy.cli.options import at_least, with_option

SHORT_WAIT = {
    "GOMP_SPINCOUNT": "3000",  # iterations: GNU's OpenMP, which torch brings along on Linux
    "KMP_BLOCKTIME": "1",  # milliseconds: that of LLVM and Intel
}
USERS_OWN = ("OMP_WAIT_POLICY", *SHORT_WAIT)

Threads = Annotated[
    int | None,
    typer.Option(
        "--threads",
        help="Threads to compute with.",
        show_default="one per core",
        callback=at_least(1, "leave it out for one per core"),
    ),
]


def spin_shortly() -> None:
    """Let threads sleep soon, unless somebody says otherwise; OpenMP reads it when torch is imported, not later."""
    if not any(name in os.environ for name in USERS_OWN):
        os.environ.update(SHORT_WAIT)


def use_threads(number: int) -> None:
    """Compute with so many threads, whether torch is imported already or not."""
    os.environ.update({"OMP_NUM_THREADS": str(number), "MKL_NUM_THREADS": str(number)})
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(number)


@contextmanager
def _on_threads(number: int | None) -> Iterator[None]:
    if number is not None:
        use_threads(number)
    yield


def add_threads_option(app: typer.Typer) -> None:
    """Give each command of `app` the option `--threads`."""
    for command in _commands(app):
        assert command.callback is not None
        command.callback = with_option(command.callback, "threads", Threads, _on_threads)


def _commands(app: typer.Typer) -> Iterator[CommandInfo]:
    yield from app.registered_commands
    for group in app.registered_groups:
        assert group.typer_instance is not None
        yield from _commands(group.typer_instance)
