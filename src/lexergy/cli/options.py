"""Arguments that several verbs share, checked where they are read, with the remedy in the message."""

import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from lexergy.errors import LexergyError

Number: TypeAlias = int | float | None
Check: TypeAlias = Callable[[typer.CallbackParam, Number], Number]


def at_least(minimum: int, remedy: str) -> Check:
    """A check that an option's value, where given, is no smaller than `minimum`."""

    def check(param: typer.CallbackParam, value: Number) -> Number:
        if value is not None and not value >= minimum:
            raise LexergyError(f"`{param.opts[0]}` is {value}; expected at least {minimum}; {remedy}.")
        return value

    return check


def share(remedy: str) -> Check:
    """A check that an option's value, where given, is a probability above 0."""

    def check(param: typer.CallbackParam, value: Number) -> Number:
        if value is not None and not 0 < value <= 1:
            raise LexergyError(f"`{param.opts[0]}` is {value:g}; expected more than 0 and at most 1; {remedy}.")
        return value

    return check


def positive(remedy: str) -> Check:
    """A check that an option's value, where given, is a finite number above 0."""

    def check(param: typer.CallbackParam, value: Number) -> Number:
        if value is not None and not 0 < value < math.inf:
            raise LexergyError(f"`{param.opts[0]}` is {value:g}; expected a number above 0; {remedy}.")
        return value

    return check


def read_prompt(prompt: str) -> str:
    """The prompt itself, or standard input where it is `-`."""
    text = sys.stdin.read().rstrip("\n") if prompt == "-" else prompt
    if not text.strip():
        raise LexergyError(
            "the prompt is empty; expected some text to continue; "
            "give it with `--prompt 'The state of the union is'`, or `--prompt -` to read it from stdin."
        )
    return text


RecipeName = Annotated[
    str, typer.Argument(metavar="RECIPE", help="A recipe: a YAML file, or the name of one that comes with Lexergy.")
]
RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run, such as runs/quickstart.")]
Prompt = Annotated[str, typer.Option("--prompt", help="Text to continue; `-` reads it from stdin.")]
EnergyName = Annotated[
    str | None,
    typer.Option("--energy", help="Which of the run's energies to use.", show_default="the recipe's first"),
]
Seed = Annotated[
    int,
    typer.Option(
        "--seed",
        help="The same seed gives the same result.",
        callback=at_least(0, "any whole number from 0 will do"),
    ),
]
Relative = Annotated[
    bool,
    typer.Option("--relative", help="Less each token's log-frequency: what its context says, be it common or rare."),
]
Out = Annotated[Path, typer.Option("--out", help="Folder to write to.")]
RecipeOut = Annotated[
    Path | None, typer.Option("--out", help="Folder to write to.", show_default="runs/<the recipe's name>")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON on stdout instead of a table.")]
