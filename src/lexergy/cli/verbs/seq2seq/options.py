"""Options that the verbs of `lexergy seq2seq` share."""

import sys
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from lexergy.cli.options import as_written, at_least, known_place, positive


class NormalisationName(StrEnum):
    local = "local"
    globally = "global"


class FormatName(StrEnum):
    conll = "conll"
    lines = "lines"
    composed = "composed"
    ccgbank = "ccgbank"
    stagged = "stagged"


class SchemeName(StrEnum):
    iob2 = "iob2"


ModelFolder = Annotated[
    Path,
    typer.Argument(
        metavar="MODEL", help="Folder written by `lexergy seq2seq train`.", parser=as_written, callback=known_place
    ),
]
Normalisation = Annotated[
    NormalisationName | None,
    typer.Option(
        "--normalisation",
        help="Scores are log-probabilities (local) or raw (global).",
        show_default="as it was trained",
    ),
]
FileFormat = Annotated[
    FormatName | None,
    typer.Option("--format", help="How the file is written.", show_default="by its name and first lines"),
]
WordColumn = Annotated[
    int | None,
    typer.Option(
        "--word-column",
        help="Column of the words, counted from 0.",
        show_default="the first",
        callback=at_least(0, "0 is the first"),
    ),
]
LabelColumn = Annotated[
    int | None,
    typer.Option(
        "--label-column",
        help="Column of the labels, counted from 0.",
        show_default="the last",
        callback=at_least(0, "leave it out for the last"),
    ),
]
Scheme = Annotated[
    SchemeName | None,
    typer.Option(
        "--scheme",
        help="Turn labels of entities in IOB1, as CoNLL-2003 was published, into this.",
        show_default="labels stay as they are",
    ),
]
LengthPenalty = Annotated[
    float,
    typer.Option(
        "--length-penalty",
        help="Translations are ordered by score / length ** penalty.",
        callback=at_least(0, "0 orders by the score alone"),
    ),
]

Alpha = Annotated[
    float | None,
    typer.Option(
        "--alpha",
        help="Decode by the continuous search, as peaked as this.",
        show_default="hard search",
        callback=positive("10 is nearly hard search"),
    ),
]


def tell(messages: Iterable[str]) -> None:
    """What is to be known of a file, on stderr: stdout is for results."""
    for message in messages:
        print(message, file=sys.stderr)
