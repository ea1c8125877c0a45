"""Figure 1 of "Real or fake": how well machine text is told by the length of the prefix."""

from collections.abc import Iterator, Sequence

import numpy as np

from lexergy.core.detection.classification import METRIC_NAMES
from lexergy.core.estimation.findings import Finding, above
from lexergy.report.figures.picture import Panel, Series
from lexergy.report.pages.study import Conclusion
from lexergy.report.table import Cell, Table
from lexergy.studies.real_or_fake.cells import (
    POINTS_OF_AUC,
    Cells,
    Metrics,
    all_metrics,
    auc_contrast,
    auc_difference,
    metrics_table,
)
from lexergy.studies.real_or_fake.workspace import LABORATORY, PAPER, SETTING, sizes
from lexergy.studies.study import Settings, Study
from lexergy.tasks.real_or_fake.laboratory import Laboratory
from lexergy.tasks.real_or_fake.text_sets import TextSet

ENERGIES = ("bilstm-small", "unit")
DRAWN = ("balanced_accuracy", "auc")


def _examine(laboratory: Laboratory, settings: Settings) -> Cells:
    wanted = TextSet(
        settings["corpus"],
        settings["generator"],
        contexts=tuple(settings["prefixes"]),
        sides=("prefix",),
        beginnings=True,
    )
    texts = laboratory.texts.read(wanted, "test")
    length = laboratory.recipe.windows.length
    cells = {}
    for energy in ENERGIES:
        scores = laboratory.scores(energy, [wanted], wanted)
        for prefix in settings["prefixes"]:
            cells[energy, f"{prefix}/{length}"] = scores.select(np.flatnonzero(texts.contexts.numpy() == prefix))
    return cells


def _conclude(seeds: Sequence[Cells]) -> Conclusion:
    prefixes = list(dict.fromkeys(prefix for _, prefix in seeds[0]))
    metrics = all_metrics(seeds)
    return Conclusion(
        tables=(_table(metrics, prefixes), metrics_table(metrics, ("energy", "prefix/window"))),
        panels=tuple(_panel(metrics, prefixes, name) for name in DRAWN),
        findings=tuple(_findings(seeds, prefixes)),
    )


def _findings(seeds: Sequence[Cells], prefixes: Sequence[str]) -> Iterator[Finding]:
    first, second, last = prefixes[0], prefixes[1], prefixes[-1]
    for shorter, longer, sentence in (
        (first, last, "The longer the prefix, and the shorter what the machine wrote, the harder the task."),
        (first, second, "Text without a prefix is the easiest to tell."),
    ):
        yield above(
            sentence,
            f"mean AUC of both energies at {shorter} - at {longer}, {POINTS_OF_AUC}",
            auc_difference(
                seeds, [(energy, shorter) for energy in ENERGIES], [(energy, longer) for energy in ENERGIES]
            ),
        )
    small, unit = ENERGIES
    yield above(
        "The longer the prefix, the more UniTransf is ahead of the BiLSTM.",
        f"its lead at {last} - at {first}, {POINTS_OF_AUC}",
        auc_contrast(seeds, {(unit, last): 1, (small, last): -1, (unit, first): -1, (small, first): 1}),
    )


def _table(metrics: Metrics, prefixes: Sequence[str]) -> Table:
    columns = ["prefix/window"]
    for name in DRAWN:
        for energy in ENERGIES:
            columns += [f"{energy}, {METRIC_NAMES[name]} (%)", "low", "high"]
    rows = []
    for prefix in prefixes:
        row: list[Cell] = [prefix]
        for name in DRAWN:
            for energy in ENERGIES:
                row += metrics[energy, prefix][name]
        rows.append(tuple(row))
    return Table("accuracy and AUC by prefix", tuple(columns), rows)


def _panel(metrics: Metrics, prefixes: Sequence[str], name: str) -> Panel:
    ratios = [int(given) / int(length) for given, length in (prefix.split("/") for prefix in prefixes)]
    series = tuple(
        Series.of(energy, ratios, [metrics[energy, prefix][name] for prefix in prefixes]) for energy in ENERGIES
    )
    return Panel(
        "length of the prefix / length of the window",
        f"{METRIC_NAMES[name]} (%)",
        series,
        reference=50,
        colours="energy",
    )


STUDY = Study(
    title="Accuracy by the length of the prefix",
    part="Figure 1 and Section 5.5",
    paper=PAPER,
    method=(
        f"{SETTING} Here all windows are the first of a document, each of them once with each length of the prefix, "
        "and the machine is told that a document begins: so people's and machine's texts begin at the same places also "
        "without a prefix, and windows with a long prefix are those with a short one. The energies are trained on all "
        "prefixes together and tested on each apart; findings are by the area under the ROC curve, since energy 0 is "
        "no threshold for a single prefix. At size cpu the documents are chapters of the Bible, of which there are the "
        "most. The paper draws this for WikiText-103 without printing numbers."
    ),
    sizes=sizes(
        cpu={"corpus": "bible", "generator": "transf-big", "prefixes": (0, 16, 32, 48, 56)},
        paper={"corpus": "wikitext", "generator": "transf-big", "prefixes": (0, 40, 80, 120, 140)},
    ),
    workspace=LABORATORY,
    examine=_examine,
    conclude=_conclude,
)
