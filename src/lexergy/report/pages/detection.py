"""An evaluation of a detector as tables: Markdown, and one HTML page."""

from collections.abc import Iterator
from pathlib import Path

from lexergy.core.detection.classification import METRIC_NAMES, Metric
from lexergy.core.estimation.findings import Estimate
from lexergy.files import atomic_write_text
from lexergy.report.numbers import percent
from lexergy.report.pages.html import render
from lexergy.report.table import Cell, Table, markdown
from lexergy.tasks.detection.evaluation import DetectorEvaluation, Measures

ALL = "all texts"
COLUMNS = ("auc", "recall_at_1", "recall_at_5", "balanced_accuracy", "calibration_error")
SHARES = {"accused": "people accused", "recognised": "machines recognised"}
NOTE = (
    "Machine text is the positive class: a false positive is a person accused. Intervals are of 95 %, by bootstrap "
    "over documents; those of shares at a fixed rate are binomial (Clopper and Pearson 1934). By domain and length "
    "people's texts are divided as machines' are, by other columns all of people's are compared with."
)


def evaluation_tables(evaluation: DetectorEvaluation) -> list[Table]:
    """One of all texts, and one for each column."""
    tables = [_table(ALL, {ALL: evaluation.overall})]
    return tables + [_table(f"by {name}", rows) for name, rows in evaluation.by.items() if rows]


def evaluation_sentences(evaluation: DetectorEvaluation) -> Iterator[str]:
    """What the tables do not say."""
    yield NOTE
    if evaluation.false_positives is not None:
        share = percent(evaluation.false_positives, digits=1)
        yield f"A text is accused where at most {share} of the people's texts calibrated on have as high an energy."
    if evaluation.warning is not None:
        yield f"Warning: {evaluation.warning}."
    if evaluation.unjudged:
        yield f"{evaluation.unjudged} texts were too short to be judged."
    for name, values in evaluation.left_out.items():
        for value, reason in values.items():
            yield f"Nothing is measured of {name} {value}: {reason}"


def evaluation_markdown(evaluation: DetectorEvaluation, title: str) -> str:
    parts = [f"# {title}", *evaluation_sentences(evaluation)]
    for table in evaluation_tables(evaluation):
        parts += [f"## {table.name.capitalize()}", markdown(table)]
    return "\n\n".join(parts) + "\n"


def write_evaluation(evaluation: DetectorEvaluation, title: str, path: str | Path) -> None:
    """A page, or Markdown where the file's name ends in `.md`."""
    if Path(path).suffix == ".md":
        atomic_write_text(path, evaluation_markdown(evaluation, title))
        return
    page = render(
        "evaluation.html",
        title=title,
        sentences=list(evaluation_sentences(evaluation)),
        tables=evaluation_tables(evaluation),
    )
    atomic_write_text(path, page)


def _table(name: str, rows: dict[str, Measures]) -> Table:
    first = next(iter(rows.values()))
    known = [column for column in COLUMNS if getattr(first, column) is not None]
    shares = [column for column in SHARES if getattr(first, column) is not None]
    heads = (
        "texts",
        "people",
        "machines",
        *(METRIC_NAMES[column] for column in known),
        *(SHARES[own] for own in shares),
    )
    return Table(name, heads, [_row(value, own, [*known, *shares]) for value, own in rows.items()])


def _row(value: str, measures: Measures, columns: list[str]) -> tuple[Cell, ...]:
    return (value, measures.people, measures.machines, *(_cell(getattr(measures, column)) for column in columns))


def _cell(number: Metric | Estimate) -> str:
    return f"{number.value:.3f} ({number.low:.3f} to {number.high:.3f})"
