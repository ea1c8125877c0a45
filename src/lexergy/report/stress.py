"""What attacks cost a detector, as Markdown and as one HTML page."""

from pathlib import Path
from typing import NamedTuple

from lexergy.core.attack_cost import UnderAttack
from lexergy.core.classification import Metric
from lexergy.core.estimation.findings import Estimate
from lexergy.files import atomic_write_text
from lexergy.report.html import render
from lexergy.report.table import Cell, Table, markdown
from lexergy.tasks.detection.stress import StressReport

TITLE = "A detector under attack"
COLUMNS = ("attack", "AUC", "lost", "normalised", "recall", "normalised ")


class StressFiles(NamedTuple):
    markdown: Path
    page: Path


def write_stress(report: StressReport, folder: str | Path) -> StressFiles:
    """Write stress.md and stress.html."""
    files = StressFiles(Path(folder) / "stress.md", Path(folder) / "stress.html")
    table, note = attack_table(report), method(report)
    atomic_write_text(files.markdown, f"# {TITLE}\n\n{note}\n\n{markdown(table)}\n")
    atomic_write_text(files.page, render("stress.html", title=TITLE, note=note, tables=[table]))
    return files


def method(report: StressReport) -> str:
    """How the numbers came about, in words."""
    return (
        f"{report.machines} machine texts attacked, beside {report.people} texts of people that nobody attacked. "
        "Recall is the share of machine texts recognised where at most 5 % of people's texts are accused. Intervals "
        "are of 95 %, by bootstrap over documents; what is lost of the AUC is paired. Normalised: disguises undone, as "
        "`lexergy detect` does. Of the places that an attack can change it changes the share given."
    )


def attack_table(report: StressReport) -> Table:
    """A line for each attack, the first without any."""
    rows: list[tuple[Cell, ...]] = [("none", *map(interval, numbers(report.unattacked, report.unattacked)))]
    rows += [
        (f"{own.name}, {own.strength:g} of {own.places}", *map(interval, numbers(own.as_read, own.normalised)))
        for own in report.attacks
    ]
    return Table("attacks", COLUMNS, rows)


def numbers(as_read: UnderAttack, normalised: UnderAttack) -> tuple[Metric | Estimate, ...]:
    """The numbers of a line, in the order of `COLUMNS`."""
    return as_read.auc, as_read.auc_cost, normalised.auc, as_read.recall, normalised.recall


def interval(estimate: Metric | Estimate) -> str:
    """`0.88 (0.84 to 0.92)`."""
    return f"{estimate.value:.2f} ({estimate.low:.2f} to {estimate.high:.2f})".replace("-0.00", "0.00")
