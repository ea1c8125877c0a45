"""`--engine` and `--part`: who computes the shards of a command, and which of them."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from lexergy.cli.options import with_option
from lexergy.errors import LexergyError

PartOption = Annotated[
    str | None,
    typer.Option(
        "--part",
        metavar="I/N",
        help="Compute only part I of N of the shards that are missing, then stop; run all parts, then without --part.",
        show_default="all",
    ),
]
EngineOption = Annotated[
    str | None,
    typer.Option(
        "--engine",
        help="Who computes shards: `in-place`, `ray` (at RAY_ADDRESS), `ray:actors=4,cpus=2,gpus=1`.",
        show_default="the recipe's, or this process",
    ),
]


def in_parts(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command whose long stages are shards the options `--engine` and `--part`."""
    return with_option(on_engine(command), "part", PartOption, _doing)


def on_engine(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command that computes shards the option `--engine`."""
    return with_option(command, "engine", EngineOption, _using)


def check_shards(out: Path | None, sources: Sequence[str]) -> None:
    """Refuse, before any work, shards that have no folder, or that are read from where nothing can be read again."""
    from lexergy.runs.engines import current_engine
    from lexergy.runs.parts import current_part

    if out is None and (current_engine() is not None or current_part() is not None):
        raise LexergyError(
            "`--engine` and `--part` compute shards, which need a folder; expected `--out` with its name."
        )
    if out is not None and "-" in sources:
        raise LexergyError("`--out` was given with standard input; expected a file, which can be read again.")


@contextmanager
def _using(text: str | None) -> Iterator[None]:
    if text is None:
        yield
        return
    from lexergy.recipes.loader import checked
    from lexergy.recipes.sections.engine import EngineRecipe, engine_settings
    from lexergy.runs.engine_choice import open_engine
    from lexergy.runs.engines import using_engine

    with using_engine(open_engine(checked(EngineRecipe, **engine_settings(text)))):
        yield


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
