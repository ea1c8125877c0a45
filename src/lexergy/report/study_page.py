"""A study as Markdown, its tables as CSV, its picture as PNG."""

import csv
import io
import math
import re
import shlex
from pathlib import Path
from typing import NamedTuple

from lexergy.core.estimation.findings import Finding
from lexergy.files import atomic_write_bytes, atomic_write_text
from lexergy.report.panels import draw_panels
from lexergy.report.plots import format_seconds
from lexergy.runs.stages import current_versions
from lexergy.studies.study import Cell, StudyResult, Table

ROUNDING_ERROR = 1e-12


class StudyFiles(NamedTuple):
    page: Path
    picture: Path
    tables: tuple[Path, ...]


def write_study(result: StudyResult, folder: str | Path, command: str) -> StudyFiles:
    """Write `<study>.md`, `<study>.png` and a CSV per table; the same result gives the same bytes."""
    folder, name = Path(folder), result.study.name
    tables = result.conclusion.tables
    # The first table is the study's own; further ones say which they are.
    names = [name, *(f"{name}-{_slug(table.name)}" for table in tables[1:])]
    files = StudyFiles(
        page=folder / f"{name}.md",
        picture=folder / f"{name}.png",
        tables=tuple(folder / f"{one}.csv" for one in names),
    )
    for path, table in zip(files.tables, tables, strict=True):
        atomic_write_text(path, table_csv(table))
    atomic_write_bytes(files.picture, draw_panels(result.conclusion.panels))
    atomic_write_text(files.page, study_markdown(result, files, command))
    return files


def study_markdown(result: StudyResult, files: StudyFiles, command: str) -> str:
    study = result.study
    parts = [
        f"# {study.title}",
        f"{study.part} of {study.paper}.",
        study.method,
        _circumstances(result, command),
        "## Findings of the paper",
        "\n".join(f"- **{finding.verdict}**: {describe(finding)}" for finding in result.conclusion.findings),
    ]
    for table, path in zip(result.conclusion.tables, files.tables, strict=True):
        parts += [
            f"## {table.name[:1].upper()}{table.name[1:]}",
            table_markdown(table),
            f"([{path.name}]({path.name}))",
        ]
    parts.append(f"![{study.title}]({files.picture.name})")
    return "\n\n".join(parts) + "\n"


def table_markdown(table: Table) -> str:
    text_columns = {place for row in table.rows for place, cell in enumerate(row) if isinstance(cell, str) and cell}
    rule = ["---" if place in text_columns else "---:" for place in range(len(table.columns))]
    rows = [table.columns, rule, *([cell_text(cell) for cell in row] for row in table.rows)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def table_csv(table: Table) -> str:
    """All digits, so that the numbers can be used further; nothing where there is no number."""
    output = io.StringIO()
    writer = csv.writer(output, lineterminator="\n")
    writer.writerow([column.strip() for column in table.columns])
    writer.writerows(table.rows)
    return output.getvalue()


def describe(finding: Finding) -> str:
    """The finding, the number that tests it and its interval, as sentences."""
    estimate, quantity = finding.estimate, finding.quantity[:1].upper() + finding.quantity[1:]
    interval = f"{number(estimate.value)} (95 % interval {number(estimate.low)} to {number(estimate.high)})"
    return f"{finding.sentence} {quantity}: {interval}."


def number(value: float) -> str:
    """Four significant digits; a dash where there is no number, 0 where there is only a rounding error."""
    if math.isnan(value):
        return "-"
    if abs(value) < ROUNDING_ERROR:
        return "0"
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:#.4g}"


def _circumstances(result: StudyResult, command: str) -> str:
    settings = ", ".join(f"{name} {_setting(value)}" for name, value in result.settings.items() if value is not None)
    lines = [
        f"- Command: `{command}`",
        f"- Size {result.size}, recipe {result.recipe}, {f'energy {result.energy}, ' if result.energy else ''}"
        f"seeds {', '.join(map(str, result.seeds))}{'; ' if settings else ''}{settings}",
        f"- Wall time: runs {format_seconds(result.run_seconds)}, "
        f"this study's measurement {format_seconds(result.measurement_seconds)}",
        f"- Versions: {', '.join(f'{name} {version}' for name, version in current_versions().items())}",
        f"- Intervals are of 95 %: {_interval_kind(result)}",
    ]
    return "\n".join(lines)


def _setting(value: object) -> str:
    return "/".join(map(str, value)) if isinstance(value, tuple) else str(value).strip()


def _interval_kind(result: StudyResult) -> str:
    if len(result.seeds) == 1:
        drawn = "held-out windows" if result.study.examine is None else result.study.workshop.drawn
        return f"one seed, bootstrap over {drawn} (so they leave out what another training would change)"
    return f"Student's t over {len(result.seeds)} seeds"


def cell_text(cell: Cell) -> str:
    """A cell of a table for people, on one line."""
    if cell is None:
        return ""
    if isinstance(cell, float):
        return number(cell)
    return " ".join(str(cell).replace("\\", "\\\\").replace("|", "\\|").split())


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def command_line(name: str, options: dict[str, str | None]) -> str:
    """The command that makes this study again; options that were not given are left out."""
    given = [part for option, value in options.items() if value is not None for part in (option, shlex.quote(value))]
    return " ".join(["lexergy reproduce", name, *given])
