"""An evaluation of a detector as tables: Markdown, and one HTML page."""

import math
from collections.abc import Iterable, Iterator
from pathlib import Path

from lexergy.core.detection.classification import Metric
from lexergy.core.estimation.findings import Estimate
from lexergy.files import atomic_write_text
from lexergy.report.pages.html import render
from lexergy.report.table import Cell, Table, markdown
from lexergy.tasks.detection.evaluation import DetectorEvaluation, Measures

ALL = "all texts"
COLUMNS = {
    **{"auc": "ROC AUC", "recall_at_1": "recall at 1 %", "recall_at_5": "recall at 5 %"},
    **{"balanced_accuracy": "balanced accuracy", "calibration_error": "calibration error"},
}
SHARES = {"accused": "people accused", "recognised": "machines recognised"}
SHORT = {
    **{"auc": "AUC", "recall_at_1": "at 1 %", "recall_at_5": "at 5 %", "balanced_accuracy": "accuracy"},
    **{"calibration_error": "error", "accused": "accused", "recognised": "caught"},
}
SHORT_NOTES = {
    "auc": "AUC is the area under the ROC curve",
    "recall_at_1": "at 1 % and 5 % the recall where so many people are accused",
    "balanced_accuracy": "accuracy that of both classes in the mean",
    "calibration_error": "error that of the probabilities",
    "accused": "accused and caught the shares of people and of machines at the rate of false positives asked for",
}
NOTE = (
    "Machine text is the positive class: a false positive is a person accused, and recall at 1 % is the share of "
    "machine texts recognised where 1 % of people's are accused. Intervals are of 95 %, by bootstrap "
    "over documents; those of shares at a fixed rate are binomial (Clopper and Pearson 1934). By domain and length "
    "people's texts are divided as machines' are, by other columns all of people's are compared with."
)


def evaluation_tables(evaluation: DetectorEvaluation) -> list[Table]:
    """One of all texts, and one for each column."""
    tables = [_table(ALL, "texts", {ALL: evaluation.overall})]
    return tables + [_table(f"by {name}", name, rows) for name, rows in evaluation.by.items() if rows]


def short_tables(evaluation: DetectorEvaluation) -> list[Table]:
    """The same for a terminal: few letters to a column."""
    tables = [_short_table(ALL, {ALL: evaluation.overall})]
    return tables + [_short_table(f"by {name}", rows) for name, rows in evaluation.by.items() if rows]


def short_note(evaluation: DetectorEvaluation) -> str:
    """What the columns of the short tables are."""
    told = [SHORT_NOTES[column] for column in _known(evaluation.overall, SHORT_NOTES)]
    return f"Texts are those of people and of machines; {'; '.join(told)}."


def evaluation_sentences(evaluation: DetectorEvaluation) -> Iterator[str]:
    """What the tables do not say."""
    yield NOTE
    if evaluation.false_positives is not None:
        share = f"{100 * evaluation.false_positives:g} %"
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


def _table(name: str, column: str, rows: dict[str, Measures]) -> Table:
    first = next(iter(rows.values()))
    known, shares = _known(first, COLUMNS), _known(first, SHARES)
    heads = (
        column,
        "people",
        "machines",
        *(COLUMNS[column] for column in known),
        *(SHARES[own] for own in shares),
    )
    return Table(name, heads, [_row(value, own, [*known, *shares]) for value, own in rows.items()])


def _short_table(name: str, rows: dict[str, Measures]) -> Table:
    known = _known(next(iter(rows.values())), SHORT)
    cells = [
        (value, f"{own.people}, {own.machines}", *(_short_cell(getattr(own, column)) for column in known))
        for value, own in rows.items()
    ]
    return Table(name, ("", "texts", *(SHORT[column] for column in known)), cells)


def _known(measures: Measures, columns: Iterable[str]) -> list[str]:
    return [column for column in columns if getattr(measures, column) is not None]


def _row(value: str, measures: Measures, columns: list[str]) -> tuple[Cell, ...]:
    return (value, measures.people, measures.machines, *(_cell(getattr(measures, column)) for column in columns))


def _short_cell(number: Metric | Estimate) -> str:
    """`.88±.04`, the longer side of the interval: near 0 and 1 the other is cut off."""
    half = max(number.high - number.value, number.value - number.low)
    if math.isnan(half):  # a single document
        return f"{number.value:.2f}".replace("0.", ".")
    return f"{number.value:.2f}±{half:.2f}".replace("0.", ".")


def _cell(number: Metric | Estimate) -> str:
    if math.isnan(number.low):
        return f"{number.value:.3f} (one document)"
    return f"{number.value:.3f} ({number.low:.3f} to {number.high:.3f})"
