"""What the verbs of `lexergy detect` share: which detector, and how many people it may accuse."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lexergy.cli.options import as_written, known_place
from lexergy.errors import LexergyError
from lexergy.recipes.sections.runtime import split_precision
from lexergy.storage import collapsed_address, mirrored

if TYPE_CHECKING:
    from lexergy.models.detection.people import FalsePositives
    from lexergy.tasks.detection.opening import Opening

SETTINGS_FILES = (
    "detector.json",
    "detector/detector.json",
)  # of a detector, as it lies in its own folder or in a run's

DetectorFolder = Annotated[
    Path,
    typer.Argument(
        metavar="MODEL", help="Folder written by `lexergy detect train`.", parser=as_written, callback=known_place
    ),
]
ModelAndSources = Annotated[
    list[str],
    typer.Argument(
        metavar="[MODEL] FILE...",
        help="A trained detector's folder, if there is one; then text files, JSONL, Parquet or CSV files (a text a "
        "record), folders; `-` is stdin.",
    ),
]
ModelAndLabelled = Annotated[
    list[str],
    typer.Argument(
        metavar="[MODEL] FILE...",
        help="A trained detector's folder, if there is one; then JSONL, CSV, TSV or Parquet files with a label, or "
        "a text by people and one by a machine, in each record.",
    ),
]
Scorer = Annotated[
    str | None,
    typer.Option(
        "--scorer",
        help="Without MODEL: machine (an assistant's text, or a sample of an LM), assistant, sample, likelihood, "
        "log-rank, curvature, ratio, rank-tail, tail-varentropy or bits-ratio.",
        show_default="machine; with --lm, tail-varentropy",
    ),
]
LMs = Annotated[
    list[str] | None,
    typer.Option(
        "--lm",
        help="Without MODEL: the LM that scores; given again, the LM that curvature and ratio compare with.",
        show_default="smollm2-135m",
    ),
]
FalsePositiveRate = Annotated[
    float | None,
    typer.Option(
        "--false-positives",
        metavar="SHARE",
        help="Accuse at most this share of people's texts.",
        show_default="0.05 without MODEL",
    ),
]
FalseDiscoveryRate = Annotated[
    float | None,
    typer.Option(
        "--false-discoveries",
        metavar="SHARE",
        help="Instead: of the texts accused, at most this share is people's (Benjamini and Hochberg).",
    ),
]
ClearAbove = Annotated[
    float | None,
    typer.Option("--clear-above", metavar="SHARE", help="Call a text people's above this p-value.", show_default="0.2"),
]
Calibrate = Annotated[
    list[str] | None,
    typer.Option(
        "--calibrate",
        metavar="FILE",
        help="Texts of people, like those asked about, to know false positives from; may be given again.",
        show_default="those stored with the detector",
    ),
]
Domain = Annotated[
    str | None,
    typer.Option(
        "--domain", help="Compare with stored texts of this domain only: news, speeches, essays, fiction or web."
    ),
]


def split_model(arguments: list[str]) -> tuple[Path | None, list[str]]:
    """The detector, if the first of the arguments is a folder or address of one, and the files."""
    first, *rest = arguments
    folder = str(split_precision(first)[0])
    place, precision = mirrored(folder), first.removeprefix(folder)
    is_address = collapsed_address(Path(first)) is not None
    is_missing = not first or (first != "-" and not place.exists())
    if any((place / name).is_file() for name in SETTINGS_FILES) or (rest and is_address):
        if not rest:
            raise LexergyError(f"`{first}` is a detector, and no texts are given; expected [MODEL] FILE...")
        return Path(f"{place}{precision}"), rest
    if rest and is_missing:
        raise LexergyError(
            f"no detector at `{first}`, and no text; expected a folder written by `lexergy detect train --out`, or "
            "files to judge; check the path."
        )
    return None, arguments


def opening(
    model: Path | None,
    scorer: str | None,
    lms: list[str] | None,
    allowed: "FalsePositives | None",
    calibrate: list[str] | None,
    domain: str | None,
    text_field: str,
) -> "Opening":
    from lexergy.tasks.detection.opening import Opening

    return Opening(model, tuple(lms or ()), scorer, allowed, tuple(calibrate or ()), domain, text_field)


def false_positives(
    rate: float | None, discoveries: float | None, clear_above: float | None
) -> "FalsePositives | None":
    """What is allowed; None where nothing is said."""
    from lexergy.models.detection.people import CLEAR_ABOVE, FalsePositives
    from lexergy.tasks.detection.opening import USUAL

    if rate is not None and discoveries is not None:
        raise LexergyError("`--false-positives` and `--false-discoveries` are both given; expected one of them.")
    if rate is None and discoveries is None:
        return None if clear_above is None else FalsePositives(USUAL.rate, clear_above)
    chosen = rate if rate is not None else discoveries
    assert chosen is not None
    if not 0 < chosen < 1:
        option = "--false-positives" if rate is not None else "--false-discoveries"
        raise LexergyError(f"`{option}` is {chosen:g}; expected more than 0 and less than 1; 0.05 is one in twenty.")
    return FalsePositives(
        chosen, max(CLEAR_ABOVE, chosen) if clear_above is None else clear_above, among_accused=rate is None
    )
