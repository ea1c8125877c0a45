"""`lexergy reproduce`: a table or figure of a paper, the paper's numbers beside ours."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lexergy.cli.render import print_lines, print_paragraphs, print_table
from lexergy.errors import LexergyError
from lexergy.studies import CATALOGUE

if TYPE_CHECKING:
    from lexergy.studies.study import Table

TERMINAL_COLUMNS = 8


class SizeName(StrEnum):
    CPU = "cpu"
    PAPER = "paper"


def reproduce(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="The study; left out: list all.")] = None,
    size: Annotated[SizeName, typer.Option(help="`cpu` fits two cores; `paper` needs the paper's hardware.")] = (
        SizeName.CPU
    ),
    seeds: Annotated[
        str, typer.Option(help="How many seeds (3 means 0, 1, 2), or which, with commas: `0,1,2`, `7,`.")
    ] = "1",
    recipe: Annotated[str | None, typer.Option(help="Another recipe to study.", show_default="the size's own")] = None,
    energy: Annotated[
        str | None, typer.Option(help="Another of the recipe's energies to study.", show_default="the size's own")
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for Markdown, CSV and PNG.")] = Path("results"),
    list_studies: Annotated[bool, typer.Option("--list", help="List the studies and stop.")] = False,
) -> None:
    """Reproduce a table or figure of a paper.

    Trains and measures what the study needs (kept in runs/reproduce, and shared by the studies), then writes
    its tables and picture with the paper's numbers beside ours, and says which of the paper's findings hold.
    A stopped study goes on where it was when the command is given again.

    Examples:

    \b
      lexergy reproduce --list
      lexergy reproduce figure-1
      lexergy reproduce table-1 --seeds 3
      lexergy reproduce figure-2-right --recipe smollm2-bit --energy energy
    """
    if name is None or list_studies:
        print_table(
            "Studies",
            ("name", "what it shows"),
            [(name, entry.shows) for name, entry in CATALOGUE.items()],
            text_columns=(0, 1),
        )
        return
    numbers = read_seeds(seeds)
    if name not in CATALOGUE:
        raise LexergyError(f"no study `{name}`; expected one of {', '.join(CATALOGUE)}.")

    from lexergy.report.study_page import command_line, describe, write_study
    from lexergy.studies.study import load_study
    from lexergy.studies.study import reproduce as carry_out

    result = carry_out(load_study(name), size=size.value, seeds=numbers, recipe=recipe, energy=energy)
    options = {"--size": size.value, "--seeds": seeds, "--recipe": recipe, "--energy": energy}
    files = write_study(result, out, command_line(name, options))
    _print_table(result.study.title, result.conclusion.tables[0])
    print_paragraphs(*(f"{finding.verdict}: {describe(finding)}" for finding in result.conclusion.findings))
    print_lines(f"Page: {files.page}", f"Picture: {files.picture}", *(f"Table: {path}" for path in files.tables))


def _print_table(title: str, table: "Table") -> None:
    """The study's first table without the ends of its intervals, where it then fits a terminal."""
    from lexergy.report.study_page import cell_text

    shown = [place for place, column in enumerate(table.columns) if column not in ("low", "high")]
    if len(shown) > TERMINAL_COLUMNS:
        print_lines(title)
        return
    rows = [[cell_text(row[place]) for place in shown] for row in table.rows]
    are_text = [at for at, place in enumerate(shown) if any(isinstance(row[place], str) for row in table.rows)]
    print_table(title, [table.columns[place] for place in shown], rows, text_columns=are_text)


def read_seeds(text: str) -> tuple[int, ...]:
    """`3` is the first three seeds; with a comma, just those that are listed."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not parts or not all(part.isdecimal() for part in parts):
        raise LexergyError(f"`--seeds` is {text}; expected how many, as in 3, or which, as in 0,1,2.")
    numbers = tuple(map(int, parts))
    if "," in text:
        if len(set(numbers)) < len(numbers):
            raise LexergyError(f"`--seeds` is {text}; expected each seed once.")
        return numbers
    if numbers[0] == 0:
        raise LexergyError("`--seeds` is 0; expected at least 1; `0,` is the seed 0 alone.")
    return tuple(range(numbers[0]))
