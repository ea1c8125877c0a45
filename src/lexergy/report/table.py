"""A table as data, and as text for pages and other programs."""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass

from lexergy.report.numbers import significant

Cell = str | int | float | None


@dataclass(frozen=True)
class Table:
    """Column heads and rows of cells; the name tells the tables of a page apart."""

    name: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[Cell, ...]]

    @property
    def texts(self) -> list[tuple[str, ...]]:
        """The rows for people."""
        return [tuple(map(cell_text, row)) for row in self.rows]

    @property
    def text_columns(self) -> list[int]:
        """Those that hold words, not numbers alone."""
        return sorted({place for row in self.rows for place, cell in enumerate(row) if isinstance(cell, str) and cell})

    @property
    def transposed(self) -> "Table":
        """The same cells with a column for each row."""
        columns, *rows = zip(self.columns, *self.rows, strict=True)
        return Table(self.name, tuple(map(str, columns)), rows)

    def select(self, places: Sequence[int]) -> "Table":
        """These columns."""
        rows = [tuple(row[place] for place in places) for row in self.rows]
        return Table(self.name, tuple(self.columns[place] for place in places), rows)


def cell_text(cell: Cell) -> str:
    """A cell on one line, with nothing in it that ends a cell in Markdown."""
    if cell is None:
        return ""
    if isinstance(cell, float):
        return significant(cell)
    return " ".join(str(cell).replace("\\", "\\\\").replace("|", "\\|").split())


def markdown(table: Table) -> str:
    """Words from the left, numbers from the right."""
    rule = ["---" if place in table.text_columns else "---:" for place in range(len(table.columns))]
    return "\n".join(f"| {' | '.join(row)} |" for row in (table.columns, rule, *table.texts))


def comma_separated(table: Table) -> str:
    """All digits, so that the numbers can be used further; nothing where there is no number."""
    output = io.StringIO()
    writer = csv.writer(output, lineterminator="\n")
    writer.writerow([column.strip() for column in table.columns])
    writer.writerows(table.rows)
    return output.getvalue()
