"""`--part`: a command of which several processes, here or elsewhere, each compute some of the shards."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from lexergy.cli.options import with_option

PartOption = Annotated[
    str | None,
    typer.Option(
        "--part",
        metavar="I/N",
        help="Compute only part I of N of the shards that are missing, then stop; run all parts, then without --part.",
        show_default="all",
    ),
]


def in_parts(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command whose long stages are shards the option `--part`."""
    return with_option(command, "part", PartOption, _doing)


@contextmanager
def _doing(text: str | None) -> Iterator[None]:
    if text is None:
        yield
        return
    from lexergy.runs.parts import PartDone, doing_part, read_part

    try:
        with doing_part(read_part(text)):
            yield
    except PartDone as done:
        print(done, file=sys.stderr)
