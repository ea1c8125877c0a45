"""Arguments that several verbs share, checked where they are read, with the remedy in the message."""

import errno
import functools
import inspect
import sys
import tempfile
from collections.abc import Callable
from contextlib import AbstractContextManager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from lexergy.errors import LexergyError
from lexergy.files import remove_partials
from lexergy.recipes.limits import limit_of, shown
from lexergy.storage import collapsed_address, fetched, mirrored

if TYPE_CHECKING:
    from lexergy.runs.records import RunResult

Number: TypeAlias = int | float | None
Check: TypeAlias = Callable[[typer.CallbackParam, Number], Number]


def at_least(minimum: int, remedy: str) -> Check:
    """A check that an option's value, where given, is no smaller than `minimum` and within the limits of settings."""

    def check(param: typer.CallbackParam, value: Number) -> Number:
        if value is None:
            return value
        if not value >= minimum:
            raise LexergyError(f"`{param.opts[0]}` is {shown(value)}; expected at least {minimum}; {remedy}.")
        if value > limit_of(param.opts[0]):
            most = limit_of(param.opts[0])
            raise LexergyError(f"`{param.opts[0]}` is {shown(value)}; expected at most {most}; {remedy}.")
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
        if value is not None and not 0 < value <= limit_of(param.opts[0]):
            most = "" if value != value or value <= 0 else f" and at most {limit_of(param.opts[0])}"
            raise LexergyError(f"`{param.opts[0]}` is {shown(value)}; expected a number above 0{most}; {remedy}.")
        return value

    return check


def duration(param: typer.CallbackParam, value: str | None) -> str | None:
    """A check that an option's value, where given, is a time above 0."""
    from lexergy.recipes.durations import EXPECTED, is_duration

    if value is not None and not is_duration(value):
        raise LexergyError(f"`{param.opts[0]}` is {value[:40]}; {EXPECTED}.")
    return value


def as_written(text: str) -> str:
    """A place as it was given: as a path, `s3://bucket` would lose a slash."""
    return text


def known_place(param: typer.CallbackParam, value: str | Path | None) -> Path | None:
    """The path of a folder, or of the local copy of an address; nothing is fetched yet."""
    return None if value is None else mirrored(value)


def new_place(param: typer.CallbackParam, value: str | Path | None) -> Path | None:
    """The path of a folder, or of an address's local copy, in which all that is written is published."""
    return new_folder(param, known_place(param, value))


def new_file(param: typer.CallbackParam, value: Path | None) -> Path | None:
    """Refuse a file that could not be written, before the work whose result it is for."""
    _check_local(param.opts[0], value)
    if value is not None and value.is_dir():
        raise LexergyError(f"`{param.opts[0]}` is {value}, a folder; expected a file to write.")
    path = _writable(param.opts[0], value)
    if path is not None:
        remove_partials(path.parent, path.name)  # a killed command's
    return path


def new_folder(param: typer.CallbackParam, value: Path | None) -> Path | None:
    """Refuse a folder that could not be written, before any work."""
    _check_local(param.opts[0], value)
    if value == Path():
        raise LexergyError(
            f"`{param.opts[0]}` is the current folder; expected one of the results' own, such as runs/mine."
        )
    if value is not None and value.exists() and not value.is_dir():
        raise LexergyError(f"`{param.opts[0]}` is {value}, a file; expected a folder, new or of an earlier run.")
    return _writable(param.opts[0], value)


def _check_local(option: str, path: Path | None) -> None:
    """Refuse an address where a path is meant, before it becomes folders of strange names."""
    address = None if path is None else collapsed_address(path)
    if address is not None:
        raise LexergyError(f"`{option}` is {address}; expected a path of this machine; copy it there afterwards.")


def _writable(option: str, path: Path | None) -> Path | None:
    if path is None:
        return None
    try:
        nearest = next(folder for folder in [path, *path.absolute().parents] if folder.exists())
    except OSError as error:
        raise LexergyError(f"`{option}` is {str(path)[:80]}; {error.strerror}; choose another name.") from None
    folder = nearest.parent if nearest == path and not path.is_dir() else nearest
    try:
        with tempfile.TemporaryFile(dir=folder):  # rights alone do not tell: a disk may be read-only
            return path
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise LexergyError(f"`{option}` is {path}, and {folder} cannot be written; choose another place.") from None


def with_option(
    command: Callable[..., Any], name: str, option: Any, during: Callable[[Any], AbstractContextManager[None]]
) -> Callable[..., Any]:
    """A command with one more option, None unless given, whose value `during` gets around the whole command."""

    @functools.wraps(command)
    def run(*arguments: Any, **options: Any) -> Any:
        with during(options.pop(name, None)):
            return command(*arguments, **options)

    signature = inspect.signature(command)
    added = inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=option)
    run.__signature__ = signature.replace(parameters=[*signature.parameters.values(), added])  # type: ignore[attr-defined]
    run.__annotations__ = {**command.__annotations__, name: option}
    return run


def read_stdin() -> str:
    """All of standard input."""
    try:
        text = sys.stdin.read()
    except UnicodeDecodeError as error:
        raise LexergyError(f"standard input is not UTF-8 text (byte {error.start}); convert it first.") from None
    check_utf8(text, "standard input")
    return text


def check_utf8(text: str, where: str) -> None:
    """Refuse bytes that were no UTF-8: Python hands them on as surrogates, which no tokenizer takes."""
    if any("\ud800" <= letter <= "\udfff" for letter in text):
        raise LexergyError(f"{where} is not UTF-8 text; convert it first.")


def read_prompt(prompt: str) -> str:
    """The prompt itself, or standard input where it is `-`."""
    text = read_stdin().rstrip("\n") if prompt == "-" else prompt
    if not text.strip():
        raise LexergyError(
            "the prompt is empty; expected some text to continue; "
            "give it with `--prompt 'The state of the union is'`, or `--prompt -` to read it from stdin."
        )
    return text


def read_lines(file: str) -> list[str]:
    """The lines of a file, or of stdin."""
    if file == "-":
        lines = [line.removesuffix("\r") for line in read_stdin().removesuffix("\n").split("\n")]
    else:
        from lexergy.data.reading import lines_of

        try:
            lines = list(lines_of(fetched(file)))
        except IsADirectoryError:
            raise LexergyError(f"`{file}` is a folder; expected a text file, one sentence a line.") from None
    if not any(line.strip() for line in lines):
        raise LexergyError(f"the file `{file}` holds no text; expected one sentence a line.")
    return lines


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
RunFolder = Annotated[
    Path,
    typer.Argument(
        metavar="RUN",
        help="Folder of a run, such as runs/quickstart or s3://bucket/run.",
        parser=as_written,
        callback=known_place,
    ),
]
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


class MethodChoice(StrEnum):
    IMPORTANCE = "importance"
    SMC = "smc"


Method = Annotated[
    MethodChoice,
    typer.Option(
        "--method",
        help="Weigh whole continuations, or resample them while they are written (energies on states).",
    ),
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
OUT_HELP = "Folder to write to, here or at an address such as s3://bucket/run."
Out = Annotated[Path, typer.Option("--out", metavar="PATH", help=OUT_HELP, parser=as_written, callback=new_place)]
LocalOut = Annotated[Path, typer.Option("--out", help="Folder of this machine to write to.", callback=new_folder)]
RecipeOut = Annotated[
    Path | None,
    typer.Option(
        "--out",
        metavar="PATH",
        help=OUT_HELP,
        show_default="runs/<the recipe's name>",
        parser=as_written,
        callback=new_place,
    ),
]
ShardsOut = Annotated[
    Path | None,
    typer.Option(
        "--out",
        metavar="PATH",
        help="For large files: keep what is computed in this folder, or at this address, in shards.",
        show_default="none",
        parser=as_written,
        callback=new_place,
    ),
]
Html = Annotated[
    Path | None, typer.Option("--html", help="Write the coloured texts to this HTML page too.", callback=new_file)
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of text for people.")]
