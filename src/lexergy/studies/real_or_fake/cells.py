"""What the studies of "Real or fake" share: cells of accuracies, compared on the same windows."""

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from lexergy.core.classification import METRIC_NAMES
from lexergy.core.estimation.findings import Estimate, Finding, mean, over_runs, std_error
from lexergy.report.picture import Panel, Series
from lexergy.studies.study import Cell, Conclusion, Size, Table
from lexergy.tasks.real_or_fake.scores import Scores

PAPER = "Bakhtin et al. 2019, Real or Fake? Learning to Discriminate Machine from Human Generated Text"
PAPER_CORPORA = {"bible": "Books", "books": "Books", "sotu": "CCNews", "cc-news": "CCNews", "wikitext": "Wiki"}
SETTING = (
    "Windows, contexts, vocabulary and models are those of the recipe: at size cpu 64 tokens of which 32 or 48 are "
    "given (160 and 120 or 140 in the paper), 512 tokens in the vocabulary (50k), and models a thousandth of the "
    "paper's. A machine-written text shares its first or its last tokens with people's, with equal probability, and "
    "the rest is sampled from the 10 likeliest tokens. Energies read whole windows and are not told where the context "
    "ends. The generators of training and test texts differ by their seeds, splits are by document. Bible, "
    "State of the Union and WikiText-2 stand in for Books, CCNews and WikiText-103."
)
POINTS = "percentage points of balanced accuracy"

Key = tuple[str, str]
Cells = Mapping[Key, Scores]  # of one seed: (row, column) -> the energies of a text set


class Sample(NamedTuple):
    """A number for each of some windows, and the documents that these are from."""

    values: np.ndarray  # (N,)
    documents: Sequence[Hashable]  # N


def sizes(**settings: Mapping[str, object]) -> dict[str, Size]:
    """`cpu` and `paper` on their recipes, with the settings of each."""
    recipes = {"cpu": "real-or-fake-cpu", "paper": "paper/real-or-fake"}
    return {size: Size(recipe, settings=settings.get(size, {})) for size, recipe in recipes.items()}


def accuracy(seeds: Sequence[Cells], keys: Sequence[Key]) -> Estimate:
    """Balanced accuracy in per cent, over the windows of some cells together."""
    return _mean(seeds, keys, [[cells[key].accuracies for key in keys] for cells in seeds])


def difference(seeds: Sequence[Cells], one: Sequence[Key], other: Sequence[Key]) -> Estimate:
    """By how many points some cells are more accurate than others of the same windows, paired."""
    pairs = list(zip(one, other, strict=True))
    values = [[cells[a].accuracies - cells[b].accuracies for a, b in pairs] for cells in seeds]
    return _mean(seeds, one, values)


def unpaired(one: Sequence[Sample], other: Sequence[Sample]) -> Estimate:
    """By how much the mean of some windows is above that of others, for each seed."""
    values = [float(a.values.mean() - b.values.mean()) for a, b in zip(one, other, strict=True)]
    errors = [
        math.hypot(*(std_error(part.values, groups=part.documents) for part in pair))
        for pair in zip(one, other, strict=True)
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
    found = accuracy(seeds, [key])
    return [found.value, *_shares(found)]


def _shares(found: Estimate) -> tuple[float, float]:
    """The interval of a percentage: it ends at 0 and 100, where Student's t does not."""
    return max(found.low, 0.0), min(found.high, 100.0)


def metrics_table(seeds: Sequence[Cells], titles: Sequence[str]) -> Table:
    """Every cell with every metric; `titles` name the parts of a key."""
    columns = [*titles]
    for title in METRIC_NAMES.values():
        columns += [f"{title} (%)", "low", "high"]
    lines = []
    for key in seeds[0]:
        found = [cells[key].metrics() for cells in seeds]
        line: list[Cell] = [*key]
        for name in METRIC_NAMES:
            parts = [getattr(metrics, name) for metrics in found]
            estimate = over_runs([100 * part.value for part in parts], [100 * part.std_error for part in parts])
            line += [estimate.value, *_shares(estimate)]
        lines.append(tuple(line))
    return Table("all metrics", tuple(columns), lines)


def _accuracy_panel(seeds: Sequence[Cells], layout: Layout) -> Panel:
    """A point per cell, in the colour of its column, with its interval."""
    series = []
    for column in layout.columns:
        places = [place for place, row in enumerate(layout.rows) if (row, column) in seeds[0]]
        found = [accuracy(seeds, [(layout.rows[place], column)]) for place in places]
        low, high = [_shares(one)[0] for one in found], [_shares(one)[1] for one in found]
        series.append(Series(column, places, [one.value for one in found], low, high, style="points"))
    return Panel(
        layout.titles[0],
        "balanced accuracy (%)",
        tuple(series),
        categories=tuple(layout.rows),
        reference=50,
        colours=layout.titles[1],
    )
