"""Figure 1 of "Real or fake": accuracy by the length of the prefix."""

from collections.abc import Mapping, Sequence

import numpy as np

from lexergy.core.estimation.findings import Estimate, above
from lexergy.report.picture import Panel, Series
from lexergy.report.study_page import Conclusion
from lexergy.report.table import Cell, Table
from lexergy.studies.real_or_fake.cells import POINTS, Cells, Sample, accuracy, metrics_table, unpaired
from lexergy.studies.real_or_fake.workspace import LABORATORY, PAPER, SETTING, sizes
from lexergy.studies.study import Settings, Study
from lexergy.tasks.real_or_fake.laboratory import Laboratory
from lexergy.tasks.real_or_fake.text_sets import TextSet

ENERGIES = ("bilstm-small", "unit")


def _examine(laboratory: Laboratory, settings: Settings) -> Cells:
    wanted = TextSet(settings["corpus"], settings["generator"], contexts=tuple(settings["prefixes"]), sides=("prefix",))
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
    accuracies = {energy: [accuracy(seeds, [(energy, prefix)]) for prefix in prefixes] for energy in ENERGIES}
    first, second, last = prefixes[0], prefixes[1], prefixes[-1]
    return Conclusion(
        tables=(_table(prefixes, accuracies), metrics_table(seeds, ("energy", "prefix/window"))),
        panels=(_panel(prefixes, accuracies),),
        findings=(
            above(
                "The longer the prefix, and the shorter what the machine wrote, the harder the task.",
                f"accuracy at {first} - at {last}, {POINTS}",
                unpaired([_both(cells, first) for cells in seeds], [_both(cells, last) for cells in seeds]),
            ),
            above(
                "Text without a prefix is the easiest to tell.",
                f"accuracy at {first} - at {second}, {POINTS}",
                unpaired([_both(cells, first) for cells in seeds], [_both(cells, second) for cells in seeds]),
            ),
            above(
                "The longer the prefix, the more UniTransf is ahead of the BiLSTM.",
                f"its lead at {last} - at {first}, {POINTS}",
                unpaired([_lead(cells, last) for cells in seeds], [_lead(cells, first) for cells in seeds]),
            ),
        ),
    )


def _both(cells: Cells, prefix: str) -> Sample:
    """The mean accuracy of both energies."""
    values = np.mean([cells[energy, prefix].accuracies for energy in ENERGIES], axis=0)
    return Sample(100 * values, cells[ENERGIES[0], prefix].documents)


def _lead(cells: Cells, prefix: str) -> Sample:
    small, unit = (cells[energy, prefix] for energy in ENERGIES)
    return Sample(100 * (unit.accuracies - small.accuracies), unit.documents)


def _table(prefixes: Sequence[str], accuracies: Mapping[str, Sequence[Estimate]]) -> Table:
    columns = ["prefix/window"]
    for energy in ENERGIES:
        columns += [f"{energy} (%)", "low", "high"]
    rows = []
    for place, prefix in enumerate(prefixes):
        row: list[Cell] = [prefix]
        for energy in ENERGIES:
            row += accuracies[energy][place]
        rows.append(tuple(row))
    return Table("accuracy by prefix", tuple(columns), rows)


def _panel(prefixes: Sequence[str], accuracies: Mapping[str, Sequence[Estimate]]) -> Panel:
    ratios = [int(given) / int(length) for given, length in (prefix.split("/") for prefix in prefixes)]
    series = tuple(Series.of(energy, ratios, estimates) for energy, estimates in accuracies.items())
    return Panel("length of the prefix / length of the window", "balanced accuracy (%)", series, reference=50)


STUDY = Study(
    title="Accuracy by the length of the prefix",
    part="Figure 1 and Section 5.5",
    paper=PAPER,
    method=(
        f"{SETTING} Here machine text always follows a prefix, whose length is drawn from several; the energies are "
        "trained on all of them together and tested on each apart. Without a prefix the generator begins a new "
        "document. The paper draws this without printing numbers."
    ),
    sizes=sizes(
        cpu={"corpus": "wikitext", "generator": "transf-big", "prefixes": (0, 16, 32, 48, 56)},
        paper={"corpus": "wikitext", "generator": "transf-big", "prefixes": (0, 40, 80, 120, 140)},
    ),
    workspace=LABORATORY,
    examine=_examine,
    conclude=_conclude,
)
