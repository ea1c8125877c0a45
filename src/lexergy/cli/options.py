"""Arguments that several verbs share, checked where they are read, with the remedy in the message."""

import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from lexergy.errors import LexergyError

if TYPE_CHECKING:
    from lexergy.runs.records import RunResult

Number: TypeAlias = int | float | None
Check: TypeAlias = Callable[[typer.CallbackParam, Number], Number]


def at_least(minimum: int, remedy: str) -> Check:
    """A check that an option's value, where given, is no smaller than `minimum`."""

    def check(param: typer.CallbackParam, value: Number) -> Number:
        if value is not None and not value >= minimum:
            raise LexergyError(f"`{param.opts[0]}` is {value}; expected at least {minimum}; {remedy}.")
        return value

    return check


def between(minimum: int, maximum: int, remedy: str) -> Check:
    """A check that an option's value, where given, is in this range: no machine could do with more."""

    def check(param: typer.CallbackParam, value: Number) -> Number:
        if value is not None and not minimum <= value <= maximum:
            raise LexergyError(f"`{param.opts[0]}` is {value}; expected {minimum} .. {maximum}; {remedy}.")
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


def read_lines(file: str) -> list[str]:
    """The lines of a file, or of stdin."""
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise LexergyError(f"the file `{file}` is not UTF-8 text (byte {error.start}); convert it first.") from None
    except IsADirectoryError:
        raise LexergyError(f"`{file}` is a folder; expected a text file, one sentence a line.") from None
    lines = text.split("\n")
    lines = lines[:-1] if lines and not lines[-1] else lines
    if not any(line.strip() for line in lines):
        raise LexergyError(f"the file `{file}` holds no text; expected one sentence a line.")
    return [line.removesuffix("\r") for line in lines]


def choose_energy(result: "RunResult", name: str | None) -> str:
    """The energy asked for, or the recipe's first."""
    names = list(result.energies)
    if name is not None and name not in names:
        raise LexergyError(
            f"`--energy` is {name}; expected one of {', '.join(names)}, the energies of {result.folder}."
        )
    return name or names[0]


WHOLE_VOCABULARY = "give `--top-p 1` to sample from the whole vocabulary"

RecipeName = Annotated[
    str, typer.Argument(metavar="RECIPE", help="A recipe: a YAML file, or the name of one that comes with Lexergy.")
]
RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run, such as runs/quickstart.")]
ScorerName = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="Electric, a two-tower model, a causal or a masked LM: a folder, a Hub name, a GGUF file, `smollm2-135m`.",
    ),
]
Prompt = Annotated[str, typer.Option("--prompt", help="Text to continue; `-` reads it from stdin.")]
EnergyName = Annotated[
    str | None,
    typer.Option("--energy", help="Which of the run's energies to use.", show_default="the recipe's first"),
]
TextField = Annotated[str, typer.Option("--text-field", help="Field of records that holds the text.")]
PairField = Annotated[
    str | None,
    typer.Option("--pair-field", help="Field of a second text, for a task on pairs.", show_default="none"),
]
Seed = Annotated[
    int,
    typer.Option(
        "--seed",
        help="The same seed gives the same result.",
        callback=at_least(0, "any whole number from 0 will do"),
    ),
]
Temperature = Annotated[
    float,
    typer.Option(
        "--temperature",
        help="Below 1 sharpens the LM's distributions, above 1 flattens them.",
        callback=positive("1 leaves the LM as it is"),
    ),
]
TopP = Annotated[
    float | None,
    typer.Option(
        "--top-p",
        help="Draw from the likeliest tokens that hold this probability; 1 is the whole vocabulary.",
        callback=share(WHOLE_VOCABULARY),
    ),
]
Out = Annotated[Path, typer.Option("--out", help="Folder to write to.")]
RecipeOut = Annotated[
    Path | None, typer.Option("--out", help="Folder to write to.", show_default="runs/<the recipe's name>")
]
Html = Annotated[Path | None, typer.Option("--html", help="Write the coloured texts to this HTML page too.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text for people.")]
