"""`lexergy reproduce`: a table or figure of a paper, the paper's numbers beside ours."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lexergy.cli.engines import in_parts
from lexergy.cli.options import Json, Out
from lexergy.cli.render import print_json, print_lines, print_paragraphs, print_table
from lexergy.errors import LexergyError
from lexergy.recipes.limits import limit_of
from lexergy.studies import CATALOGUE, check_name

if TYPE_CHECKING:
    from lexergy.report.pages.study import StudyFiles, StudyPage
    from lexergy.report.table import Table

TERMINAL_COLUMNS = 8


class SizeName(StrEnum):
    CPU = "cpu"
    PAPER = "paper"


StudyName = Annotated[str | None, typer.Argument(metavar="[NAME]", help="The study; without it, all are listed.")]
StudySize = Annotated[
    SizeName, typer.Option("--size", help="`cpu` fits two cores; `paper` needs the paper's hardware.")
]
StudySeeds = Annotated[
    str, typer.Option("--seeds", help="How many seeds (3 means 0, 1, 2), or which, with commas: `0,1,2`, `7,`.")
]
StudyRecipe = Annotated[
    str | None, typer.Option("--recipe", help="Study this recipe instead.", show_default="the size's own")
]
StudyEnergy = Annotated[
    str | None,
    typer.Option("--energy", help="Study this energy of the recipe instead.", show_default="the size's own"),
]
StudySettings = Annotated[
    str | None,
    typer.Option(
        "--set", help="Other settings than the size's own, with commas: `windows=500,top_k=10`.", show_default="none"
    ),
]
ListStudies = Annotated[bool, typer.Option("--list", help="List the studies and stop.")]


@in_parts
def reproduce(
    name: StudyName = None,
    size: StudySize = SizeName.CPU,
    seeds: StudySeeds = "1",
    recipe: StudyRecipe = None,
    energy: StudyEnergy = None,
    settings: StudySettings = None,
    out: Out = Path("results"),
    list_studies: ListStudies = False,
    as_json: Json = False,
) -> None:
    """Reproduce a table or figure of a paper.

    Trains and measures what the study needs (kept in runs/reproduce and shared by all studies), then writes its
    tables and picture, with the paper's numbers beside ours, and says which of the paper's findings hold.
    A study that was stopped goes on where it was when the command is given again.

    Examples:

    \b
      lexergy reproduce --list
      lexergy reproduce figure-1
      lexergy reproduce table-1 --seeds 3 --json
      lexergy reproduce figure-2-right --recipe smollm2-bit --energy energy
      lexergy reproduce text-quality --set windows=300,candidates=32
    """
    if name is None or list_studies:
        _list_studies(as_json)
        return
    numbers, changes = read_seeds(seeds), read_settings(settings)
    check_name(name)

    from lexergy.report.pages.study import command_line, write_study
    from lexergy.studies.reproduce import load_study
    from lexergy.studies.reproduce import reproduce as carry_out

    study = carry_out(
        name, load_study(name), size=size.value, seeds=numbers, recipe=recipe, energy=energy, changes=changes
    )
    options = {"--size": size.value, "--seeds": seeds, "--recipe": recipe, "--energy": energy, "--set": settings}
    files = write_study(study, out, command_line(name, options))
    if as_json:
        print_json(_record(study, files))
    else:
        _print(study, files)


def read_seeds(text: str) -> tuple[int, ...]:
    """`3` is the first three seeds; with a comma, just those that are listed."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not parts or not all(part.isdecimal() for part in parts):
        raise LexergyError(f"`--seeds` is {text}; expected how many, as in 3, or which, as in 0,1,2.")
    if any(len(part) > len(str(2**64)) for part in parts):
        raise LexergyError("`--seeds` has a number of more than 20 digits; expected less than 2**64.")
    numbers = tuple(map(int, parts))
    if "," in text:
        if len(set(numbers)) < len(numbers):
            raise LexergyError(f"`--seeds` is {text}; expected each seed once.")
        return numbers
    if numbers[0] == 0:
        raise LexergyError("`--seeds` is 0; expected at least 1; `0,` is the seed 0 alone.")
    if numbers[0] > limit_of("seeds"):
        raise LexergyError(
            f"`--seeds` is {text}; expected at most {limit_of('seeds')}; list them by commas if need be."
        )
    return tuple(range(numbers[0]))


def read_settings(text: str | None) -> dict[str, int | str | None]:
    """`windows=500,top_k=none`: whole numbers, words, and nothing."""
    settings: dict[str, int | str | None] = {}
    for part in [] if text is None else text.split(","):
        name, separator, value = (piece.strip() for piece in part.partition("="))
        if not (name and separator and value) or (value.isdecimal() and len(value) > len(str(2**64))):
            raise LexergyError(f"`--set` is {text}; expected names and values, as in windows=500,top_k=10.")
        settings[name] = int(value) if value.isdecimal() else None if value == "none" else value
    return settings


def _list_studies(as_json: bool) -> None:
    studies = {name: entry.shows for name, entry in CATALOGUE.items()}
    if as_json:
        print_json(studies)
    else:
        print_table("Studies", ("name", "what it shows"), list(studies.items()), text_columns=(0, 1))


def _record(study: "StudyPage", files: "StudyFiles") -> dict:
    circumstances, conclusion = study.circumstances, study.conclusion
    return {
        "study": study.name,
        "title": study.title,
        "paper": f"{study.part} of {study.paper}",
        "size": circumstances.size,
        "recipe": circumstances.recipe,
        "energy": circumstances.settings.get("energy"),
        "seeds": circumstances.seeds,
        "tables": conclusion.tables,
        "findings": conclusion.findings,
        "files": files,
    }


def _print(study: "StudyPage", files: "StudyFiles") -> None:
    from lexergy.report.pages.study import describe

    _print_table(study.title, study.conclusion.tables[0])
    print_paragraphs(*(f"{finding.verdict}: {describe(finding)}" for finding in study.conclusion.findings))
    print_lines(f"Page: {files.page}", f"Picture: {files.picture}", *(f"Table: {path}" for path in files.tables))


def _print_table(title: str, table: "Table") -> None:
    """The study's first table without the ends of its intervals, where it then fits a terminal."""
    shown = table.select([place for place, column in enumerate(table.columns) if column not in ("low", "high")])
    if len(shown.columns) > TERMINAL_COLUMNS:
        print_lines(title)
    else:
        print_table(title, shown.columns, shown.texts, text_columns=shown.text_columns)
