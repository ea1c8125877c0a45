"""A study as Markdown, its tables as CSV, its picture as PNG."""

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from lexergy.core.estimation.findings import Finding
from lexergy.files import atomic_write_bytes, atomic_write_text, remove_partials
from lexergy.report.figures.panels import draw_panels
from lexergy.report.figures.picture import Panel
from lexergy.report.numbers import duration, significant
from lexergy.report.table import Table, comma_separated, markdown
from lexergy.runs.stages import current_versions


@dataclass(frozen=True)
class Conclusion:
    """A study's tables and picture, and which findings of the paper hold."""

    tables: tuple[Table, ...]
    panels: tuple[Panel, ...]
    findings: tuple[Finding, ...]


@dataclass(frozen=True)
class Circumstances:
    """Of what the numbers were made, and in what time."""

    size: str
    recipe: str
    settings: Mapping[str, Any]
    seeds: tuple[int, ...]
    making_seconds: float
    measuring_seconds: float
    resampled: str  # what an interval of a single seed is a bootstrap over


@dataclass(frozen=True)
class StudyPage:
    """A study that was carried out."""

    name: str
    title: str
    part: str  # of the paper
    paper: str
    method: str
    circumstances: Circumstances
    conclusion: Conclusion


class StudyFiles(NamedTuple):
    page: Path
    picture: Path
    tables: tuple[Path, ...]


def write_study(study: StudyPage, folder: str | Path, command: str) -> StudyFiles:
    """Write `<study>.md`, `<study>.png` and a CSV per table; the same study gives the same bytes."""
    folder, tables = Path(folder), study.conclusion.tables
    # The first table is the study's own; further ones say which they are.
    names = [study.name, *(f"{study.name}-{_slug(table.name)}" for table in tables[1:])]
    files = StudyFiles(
        page=folder / f"{study.name}.md",
        picture=folder / f"{study.name}.png",
        tables=tuple(folder / f"{name}.csv" for name in names),
    )
    remove_partials(folder)  # a killed command's
    for path, table in zip(files.tables, tables, strict=True):
        atomic_write_text(path, comma_separated(table))
    atomic_write_bytes(files.picture, draw_panels(study.conclusion.panels))
    atomic_write_text(files.page, study_markdown(study, files, command))
    return files


def study_markdown(study: StudyPage, files: StudyFiles, command: str) -> str:
    parts = [
        f"# {study.title}",
        f"{study.part} of {study.paper}.",
        study.method,
        _circumstances(study.circumstances, command),
        "## Findings of the paper",
        "\n".join(f"- **{finding.verdict}**: {describe(finding)}" for finding in study.conclusion.findings),
    ]
    for table, path in zip(study.conclusion.tables, files.tables, strict=True):
        parts += [f"## {_capital(table.name)}", markdown(table), f"([{path.name}]({path.name}))"]
    parts.append(f"![{study.title}]({files.picture.name})")
    return "\n\n".join(parts) + "\n"


def describe(finding: Finding) -> str:
    """The finding, the number that tests it and its interval, as sentences."""
    value, low, high = map(significant, finding.estimate)
    doubt = "" if finding.doubt is None else f" Nothing is decided: {finding.doubt}."
    return f"{finding.sentence} {_capital(finding.quantity)}: {value} (95 % interval {low} to {high}).{doubt}"


def _circumstances(given: Circumstances, command: str) -> str:
    settings = {name: value for name, value in given.settings.items() if value is not None}
    energy = f"energy {settings.pop('energy')}, " if "energy" in settings else ""
    listed = ", ".join(f"{name} {_setting(value)}" for name, value in settings.items())
    lines = [
        f"- Command: `{command}`",
        f"- Size {given.size}, recipe {given.recipe}, {energy}seeds {', '.join(map(str, given.seeds))}"
        f"{'; ' if listed else ''}{listed}",
        f"- Wall time: runs {duration(given.making_seconds)}, "
        f"this study's measurement {duration(given.measuring_seconds)}",
        f"- Versions: {', '.join(f'{name} {version}' for name, version in current_versions().items())}",
        f"- Intervals are of 95 %: {_interval_kind(given)}",
    ]
    return "\n".join(lines)


def _setting(value: object) -> str:
    return "/".join(map(str, value)) if isinstance(value, tuple) else str(value).strip()


def _interval_kind(given: Circumstances) -> str:
    if len(given.seeds) == 1:
        return f"one seed, bootstrap over {given.resampled} (so they leave out what another training would change)"
    return f"Student's t over {len(given.seeds)} seeds"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")


def command_line(name: str, options: dict[str, str | None]) -> str:
    """The command that makes this study again; options that were not given are left out."""
    given = [part for option, value in options.items() if value is not None for part in (option, shlex.quote(value))]
    return " ".join(["lexergy reproduce", name, *given])
