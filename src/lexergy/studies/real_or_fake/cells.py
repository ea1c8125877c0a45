"""What the studies of "Real or fake" share: cells of accuracies, compared on the same windows."""

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from lexergy.core.classification import METRIC_NAMES
from lexergy.core.estimation.findings import Estimate, Finding, mean, over_runs, std_error
from lexergy.report.picture import Panel, Series
from lexergy.report.study_page import Conclusion
from lexergy.report.table import Cell, Table
from lexergy.tasks.real_or_fake.scores import Scores

POINTS = "percentage points of balanced accuracy"

Key = tuple[str, str]
Cells = Mapping[Key, Scores]  # of one seed: (row, column) -> the energies of a text set


class Sample(NamedTuple):
    """A number for each of some windows, and the documents that these are from."""

    values: np.ndarray  # (N,)
    documents: Sequence[Hashable]  # N


def accuracy(seeds: Sequence[Cells], keys: Sequence[Key]) -> Estimate:
    """Balanced accuracy in per cent, over the windows of some cells together."""
    return _mean(seeds, keys, [[cells[key].accuracies for key in keys] for cells in seeds])


def difference(seeds: Sequence[Cells], first: Sequence[Key], second: Sequence[Key]) -> Estimate:
    """By how many points some cells are more accurate than others of the same windows, paired."""
    pairs = list(zip(first, second, strict=True))
    values = [[cells[a].accuracies - cells[b].accuracies for a, b in pairs] for cells in seeds]
    return _mean(seeds, first, values)


def unpaired(first: Sequence[Sample], second: Sequence[Sample]) -> Estimate:
    """By how much the mean of some windows is above that of others, for each seed."""
    values = [float(a.values.mean() - b.values.mean()) for a, b in zip(first, second, strict=True)]
    errors = [
        math.hypot(*(std_error(part.values, groups=part.documents) for part in pair))
        for pair in zip(first, second, strict=True)
    ]
    return over_runs(values, errors)


def _mean(seeds: Sequence[Cells], keys: Sequence[Key], values: Sequence[Sequence[np.ndarray]]) -> Estimate:
    documents: list[list[Hashable]] = [
        [(place, document) for place, key in enumerate(keys) for document in cells[key].documents] for cells in seeds
    ]
    return mean([100 * np.concatenate(parts) for parts in values], groups=documents)


class Layout(NamedTuple):
    """How cells are laid out, and the paper's numbers beside them."""

    name: str
    titles: tuple[str, str]  # of rows and of columns
    rows: Sequence[str]
    columns: Sequence[str]
    paper: Mapping[Key, float]  # by row and the paper's column
    paper_columns: Mapping[str, str]  # what stands beside a column of ours


def conclusion(
    seeds: Sequence[Cells], layout: Layout, findings: Iterable[Finding], further: tuple[Table, ...] = ()
) -> Conclusion:
    """Balanced accuracies by row and column, `further` tables, every cell with every metric, and a picture."""
    return Conclusion(
        tables=(_accuracy_table(seeds, layout), *further, metrics_table(seeds, layout.titles)),
        panels=(_accuracy_panel(seeds, layout),),
        findings=tuple(findings),
    )


def _accuracy_table(seeds: Sequence[Cells], layout: Layout) -> Table:
    """With their intervals, and the paper's numbers."""
    columns = [layout.titles[0]]
    for column in layout.columns:
        columns += [f"{column} (%)", "low", "high"]
        if layout.paper:
            columns.append(f"paper, {layout.paper_columns[column]}")
    lines = []
    for row in layout.rows:
        line: list[Cell] = [row]
        for column in layout.columns:
            line += _numbers(seeds, (row, column))
            if layout.paper:
                line.append(layout.paper.get((row, layout.paper_columns[column])))
        lines.append(tuple(line))
    return Table(layout.name, tuple(columns), lines)


def _numbers(seeds: Sequence[Cells], key: Key) -> list[Cell]:
    """An accuracy and its interval; nothing where there is no such cell."""
    if key not in seeds[0]:
        return [None] * 3
    return [*_percentage(accuracy(seeds, [key]))]


def _percentage(estimate: Estimate) -> Estimate:
    """Its interval ends at 0 and 100, where Student's t does not."""
    return Estimate(estimate.value, max(estimate.low, 0.0), min(estimate.high, 100.0))


def metrics_table(seeds: Sequence[Cells], titles: Sequence[str]) -> Table:
    """Every cell with every metric; `titles` name the parts of a key."""
    columns = [*titles]
    for title in METRIC_NAMES.values():
        columns += [f"{title} (%)", "low", "high"]
    lines = []
    for key in seeds[0]:
        metrics = [cells[key].metrics() for cells in seeds]
        line: list[Cell] = [*key]
        for name in METRIC_NAMES:
            parts = [getattr(metric, name) for metric in metrics]
            estimate = over_runs([100 * part.value for part in parts], [100 * part.std_error for part in parts])
            line += _percentage(estimate)
        lines.append(tuple(line))
    return Table("all metrics", tuple(columns), lines)


def _accuracy_panel(seeds: Sequence[Cells], layout: Layout) -> Panel:
    """A point per cell, in the colour of its column, with its interval."""
    series = []
    for column in layout.columns:
        places = [place for place, row in enumerate(layout.rows) if (row, column) in seeds[0]]
        accuracies = [_percentage(accuracy(seeds, [(layout.rows[place], column)])) for place in places]
        series.append(Series.of(column, places, accuracies, "points"))
    return Panel(
        layout.titles[0],
        "balanced accuracy (%)",
        tuple(series),
        categories=tuple(layout.rows),
        reference=50,
        colours=layout.titles[1],
    )
