"""A search-aware training as one HTML page: what each beam is worth, what falls off it, and how training went."""

from pathlib import Path
from typing import Any

import yaml

from lexergy.files import atomic_write_text
from lexergy.report.figures.drawing import Drawing, data_uri
from lexergy.report.figures.panels import panels_figure
from lexergy.report.figures.picture import Panel, Series
from lexergy.report.figures.plots import stage_seconds
from lexergy.report.numbers import duration, fixed, percent
from lexergy.report.pages.html import render
from lexergy.report.pages.run import REPORT_FILE
from lexergy.report.table import Cell, Table
from lexergy.tasks.search_aware.training import SequenceReport, load_report

METRICS = {"accuracy": "Accuracy", "f1": "F1", "bleu": "BLEU"}
QUANTITIES = {
    "alpha": "Alpha, how peaked the relaxation is",
    "mixing": "Probability that gold is fed",
    "log_z_mean": "Mean of log Z",
    "log_z_variance": "Variance of log Z",
}
"""Of a training's record, besides losses and the metric: drawn where they change."""


def write_sequence_report(folder: str | Path) -> Path:
    """Write FOLDER/report.html from the folder's report and return its path."""
    path = Path(folder) / REPORT_FILE
    atomic_write_text(path, render("search_aware.html", **page_content(load_report(folder))))
    return path


def page_content(report: SequenceReport) -> dict[str, Any]:
    """Everything that the template shows."""
    metric = METRICS[report.metric]
    return {
        "name": report.recipe["name"],
        "headline": _headline(report, metric),
        "metric": f"{metric} in percent,",
        "table": _beam_table(report),
        "beams": [_by_beam(report, metric), *_fall_off(report)],
        "trainings": [
            {"name": name, "figures": _training(history, report.metric)} for name, history in report.histories.items()
        ],
        "data": [
            ("data", report.recipe["data"]["source"]),
            ("sentences", ", ".join(f"{count:,} {part}" for part, count in report.examples.items())),
            ("symbols to write", f"{report.num_outputs:,}"),
        ],
        "messages": report.messages,
        "timings": Drawing(
            f"Stage by stage, {duration(sum(report.seconds.values()))} in all",
            data_uri(stage_seconds(list(report.seconds), list(report.seconds.values()))),
        ),
        "recipe": yaml.safe_dump(report.recipe, sort_keys=False, allow_unicode=True),
    }


def _headline(report: SequenceReport, metric: str) -> str:
    """By the beam of the training: the best on test sentences would be chosen on them."""
    values = report.by_beam["test"]
    greedy = f" Greedy search reaches {fixed(values[1])}." if 1 in values and report.beam != 1 else ""
    reached = f"{metric} {fixed(values[report.beam])} on test sentences with a beam of {report.beam}"
    return f"Trained by {report.objective}: {reached}.{greedy}"


def _beam_table(report: SequenceReport) -> Table:
    beams = list(report.by_beam["validation"])
    rows: list[tuple[Cell, ...]] = [
        (part, *(values[beam] for beam in beams)) for part, values in report.by_beam.items()
    ]
    return Table("by beam", ("", *(f"beam {beam}" for beam in beams)), rows)


def _by_beam(report: SequenceReport, metric: str) -> Drawing:
    series = tuple(Series(part, list(values), list(values.values())) for part, values in report.by_beam.items())
    panel = Panel("beam", f"{metric} (%)", series, log_x=True)
    return Drawing(
        f"{metric} against the beam",
        data_uri(panels_figure((panel,))),
        f"The training knew of a beam of {report.beam}.",
    )


def _fall_off(report: SequenceReport) -> list[Drawing]:
    shares = [100 * share for share in report.fall_off]
    if not shares:
        return []
    steps = [float(step) for step in range(1, len(shares) + 1)]
    panel = Panel("step", "off the beam (%)", (Series("", steps, shares),))
    return [
        Drawing(
            "Gold prefixes that fall off the beam",
            data_uri(panels_figure((panel,))),
            f"Of validation sentences that long, those whose gold beginning a beam of {report.beam} has lost by this "
            f"step; {percent(report.fall_off[0])} are lost at the first.",
        )
    ]


def _training(history: list[dict[str, Any]], metric: str) -> list[Drawing]:
    panels = [
        (
            "Loss",
            (_series(history, "training", "loss"), _series(history, "validation", "objective_loss")),
            "per symbol; validation without dropout",
        ),
        (METRICS[metric], (_series(history, "validation", metric),), "share of 1, by the search of the training"),
        *((name, (_series(history, "validation", key),), "") for key, name in QUANTITIES.items()),
    ]
    return [
        Drawing(title, data_uri(panels_figure((Panel("step", title, series),))), caption)
        for title, series, caption in panels
        if any(len(set(curve.y)) > 1 for curve in series)
    ]


def _series(history: list[dict[str, Any]], part: str, key: str) -> Series:
    """A quantity of training, or of validation, where it is known."""
    values = [(record["step"], record["loss"] if key == "loss" else record[part].get(key)) for record in history]
    known = [(step, value) for step, value in values if value is not None]
    return Series(part, [step for step, _ in known], [value for _, value in known])
