"""What attacks cost a detector, as Markdown and as one HTML page."""

from pathlib import Path
from typing import NamedTuple

from lexergy.core.detection.attack_cost import UnderAttack
from lexergy.core.detection.classification import Metric
from lexergy.core.estimation.findings import Estimate
from lexergy.files import atomic_write_text
from lexergy.report.pages.html import render
from lexergy.report.table import Cell, Table, markdown
from lexergy.tasks.detection.attribution import Attribution
from lexergy.tasks.detection.stress import StressReport

TITLE = "A detector under attack"
COLUMNS = ("attack", "AUC", "lost", "normalised", "recall", "normalised ")


class StressFiles(NamedTuple):
    markdown: Path
    page: Path


class Section(NamedTuple):
    title: str
    note: str
    tables: tuple[Table, ...]


def write_stress(report: StressReport, folder: str | Path) -> StressFiles:
    """Write stress.md and stress.html."""
    files = StressFiles(Path(folder) / "stress.md", Path(folder) / "stress.html")
    parts = sections(report)
    text = [f"# {TITLE}"]
    for part in parts:
        text += [f"## {part.title}", part.note, *map(markdown, part.tables)]
    atomic_write_text(files.markdown, "\n\n".join(text) + "\n")
    atomic_write_text(files.page, render("stress.html", title=TITLE, sections=parts))
    return files


def sections(report: StressReport) -> list[Section]:
    """The attacks, and the sentences of mixed texts where the detector tells of them."""
    parts = [Section("Attacks", method(report), (attack_table(report),))]
    if report.attribution is not None:
        tables = (right_table(report.attribution), reliability_table(report.attribution))
        parts.append(Section("Which sentences", sentences_method(report.attribution), tables))
    return parts


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


def sentences_method(own: Attribution) -> str:
    """What was spliced, in words."""
    return (
        f"{own.texts} texts in which none, a quarter, a half or three quarters of the sentences, one run of them, are "
        f"the other writer's; {own.sentences} sentences. A sentence is a machine's above P = .5. ROC AUC of sentences "
        f"{interval(own.auc)}, calibration error {interval(own.calibration_error)}."
    )


def right_table(own: Attribution) -> Table:
    """The share of characters rightly attributed."""
    rows: list[tuple[Cell, ...]] = [(method, interval(share)) for method, share in own.right.items()]
    return Table("right", ("attributed by", "characters right"), rows)


def reliability_table(own: Attribution) -> Table:
    rows: list[tuple[Cell, ...]] = [
        (f"{level.probability:.2f}", f"{level.machine:.2f}", str(level.sentences)) for level in own.reliability
    ]
    return Table("reliability", ("mean P of a sentence", "a machine's", "sentences"), rows)


def numbers(as_read: UnderAttack, normalised: UnderAttack) -> tuple[Metric | Estimate, ...]:
    """The numbers of a line, in the order of `COLUMNS`."""
    return as_read.auc, as_read.auc_cost, normalised.auc, as_read.recall, normalised.recall


def interval(estimate: Metric | Estimate) -> str:
    """`0.88 (0.84 to 0.92)`."""
    return f"{estimate.value:.2f} ({estimate.low:.2f} to {estimate.high:.2f})".replace("-0.00", "0.00")
