"""What the studies of "Real or fake" share: cells of accuracies, compared on the same windows."""

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np

from lexergy.core.detection.classification import METRIC_NAMES
from lexergy.core.estimation.findings import Estimate, Finding, mean, over_runs, std_error
from lexergy.report.figures.picture import Panel, Series
from lexergy.report.pages.study import Conclusion
from lexergy.report.table import Cell, Table
from lexergy.tasks.real_or_fake.scores import Scores, combined_auc

POINTS = "percentage points of balanced accuracy"
POINTS_OF_AUC = "percentage points of ROC AUC"

Key = tuple[str, str]
Cells = Mapping[Key, Scores]  # of one seed: (row, column) -> the energies of a text set
Metrics = Mapping[Key, Mapping[str, Estimate]]  # of all seeds: cell -> metric -> per cent


class Sample(NamedTuple):
    """A number for each of some windows, and the documents that these are from."""

    values: np.ndarray  # (N,)
    documents: Sequence[Hashable]  # N


def accuracy(seeds: Sequence[Cells], keys: Sequence[Key]) -> Estimate:
    """Balanced accuracy in per cent, over the windows of some cells together."""
    return percentage(_mean(seeds, keys, [[cells[key].accuracies for key in keys] for cells in seeds]))


def difference(seeds: Sequence[Cells], first: Sequence[Key], second: Sequence[Key]) -> Estimate:
    """By how many points some cells are more accurate than others of the same windows, paired."""
    pairs = list(zip(first, second, strict=True))
    values = [[cells[a].accuracies - cells[b].accuracies for a, b in pairs] for cells in seeds]
    return _mean(seeds, first, values)


def auc_contrast(seeds: Sequence[Cells], coefficients: Mapping[Key, float]) -> Estimate:
    """A weighted sum of the AUCs of cells in per cent, paired where they are of the same documents.

    For which of two detectors is the better one: it does not depend on where either has its threshold.
    """
    measured = [
        combined_auc([cells[key] for key in coefficients], [100 * weight for weight in coefficients.values()])
        for cells in seeds
    ]
    return over_runs([part.value for part in measured], [part.std_error for part in measured])


def auc_difference(seeds: Sequence[Cells], first: Sequence[Key], second: Sequence[Key]) -> Estimate:
    """By how many points the mean AUC of some cells is above that of others."""
    return auc_contrast(seeds, {key: 1 / len(first) for key in first} | {key: -1 / len(second) for key in second})


def unpaired(first: Sequence[Sample], second: Sequence[Sample]) -> Estimate:
    """By how much the mean of some windows is above that of others, for each seed."""
    values = [float(a.values.mean() - b.values.mean()) for a, b in zip(first, second, strict=True)]
    errors = [
        math.hypot(*(std_error(part.values, groups=part.documents) for part in pair))
        for pair in zip(first, second, strict=True)
    ]
    return over_runs(values, errors)


def _mean(seeds: Sequence[Cells], keys: Sequence[Key], values: Sequence[Sequence[np.ndarray]]) -> Estimate:
    """In per cent; a document is one, in however many cells its windows are."""
    documents = [list(chain.from_iterable(cells[key].documents for key in keys)) for cells in seeds]
    return mean([100 * np.concatenate(parts) for parts in values], groups=documents)


class Layout(NamedTuple):
    """How cells are laid out, and the paper's numbers beside them."""

    name: str
    titles: tuple[str, str]  # of rows and of columns
    rows: Sequence[str]
    columns: Sequence[str]
    paper: Mapping[Key, float]  # by row and the paper's column
    paper_columns: Mapping[str, str]  # what stands beside a column of ours
    metric: str = "balanced_accuracy"


def conclusion(
    seeds: Sequence[Cells], layout: Layout, findings: Iterable[Finding], further: tuple[Table, ...] = ()
) -> Conclusion:
    """The metric of the layout by row and column, `further` tables, every cell with every metric, and a picture."""
    metrics = all_metrics(seeds)
    return Conclusion(
        tables=(_table(metrics, layout), *further, metrics_table(metrics, layout.titles)),
        panels=(_panel(metrics, layout),),
        findings=tuple(findings),
    )


def all_metrics(seeds: Sequence[Cells]) -> Metrics:
    """Every metric of every cell in per cent, with its interval over documents or seeds."""
    metrics = {}
    for key in seeds[0]:
        runs = [cells[key].metrics() for cells in seeds]
        metrics[key] = {
            name: percentage(
                over_runs(
                    [100 * getattr(run, name).value for run in runs],
                    [100 * getattr(run, name).std_error for run in runs],
                )
            )
            for name in METRIC_NAMES
        }
    return metrics


def percentage(estimate: Estimate) -> Estimate:
    """Of a share: its interval ends at 0 and 100, where value ± so many errors does not."""
    return Estimate(estimate.value, max(estimate.low, 0.0), min(estimate.high, 100.0))


def _table(metrics: Metrics, layout: Layout) -> Table:
    """With their intervals, and the paper's numbers; nothing where there is no such cell."""
    columns = [layout.titles[0]]
    for column in layout.columns:
        columns += [f"{column} (%)", "low", "high"]
        if layout.paper:
            columns.append(f"paper, {layout.paper_columns[column]}")
    lines = []
    for row in layout.rows:
        line: list[Cell] = [row]
        for column in layout.columns:
            line += metrics[row, column][layout.metric] if (row, column) in metrics else [None] * 3
            if layout.paper:
                line.append(layout.paper.get((row, layout.paper_columns[column])))
        lines.append(tuple(line))
    return Table(layout.name, tuple(columns), lines)


def metrics_table(metrics: Metrics, titles: Sequence[str]) -> Table:
    """Every cell with every metric; `titles` name the parts of a key."""
    columns = [*titles]
    for title in METRIC_NAMES.values():
        columns += [f"{title} (%)", "low", "high"]
    lines: list[tuple[Cell, ...]] = [
        (*key, *chain.from_iterable(estimates.values())) for key, estimates in metrics.items()
    ]
    return Table("all metrics", tuple(columns), lines)


def _panel(metrics: Metrics, layout: Layout) -> Panel:
    """A point per cell, in the colour of its column, with its interval."""
    series = []
    for column in layout.columns:
        places = [place for place, row in enumerate(layout.rows) if (row, column) in metrics]
        estimates = [metrics[layout.rows[place], column][layout.metric] for place in places]
        series.append(Series.of(column, places, estimates, "points"))
    return Panel(
        layout.titles[0],
        f"{METRIC_NAMES[layout.metric]} (%)",
        tuple(series),
        categories=tuple(layout.rows),
        reference=50,
        colours=layout.titles[1],
    )
