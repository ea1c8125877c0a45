"""`--engine` and `--part`: who computes the shards of a command, and which of them."""

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


@contextmanager
def _using(text: str | None) -> Iterator[None]:
    if text is None:
        yield
        return
    from lexergy.recipes.engine import EngineRecipe, engine_settings
    from lexergy.recipes.loader import checked
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
