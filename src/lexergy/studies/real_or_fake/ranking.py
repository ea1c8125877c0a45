"""Appendix C of "Real or fake": the ranking loss in place of binary cross-entropy."""

from collections.abc import Iterator, Sequence

import numpy as np

from lexergy.core.estimation.findings import Estimate, Finding, above, mean, similar
from lexergy.report.figures.picture import Panel, Series
from lexergy.report.pages.study import Conclusion
from lexergy.report.table import Table
from lexergy.studies.real_or_fake.cells import Cells, percentage
from lexergy.studies.real_or_fake.workspace import LABORATORY, PAPER, SETTING, sizes
from lexergy.studies.study import Settings, Study
from lexergy.tasks.real_or_fake.laboratory import Laboratory
from lexergy.tasks.real_or_fake.text_sets import TextSet

BCE, RANKING = "binary cross-entropy", "ranking"
ENERGIES = {
    ("linear", BCE): "linear",
    ("linear", RANKING): "linear-ranking",
    ("bilstm-small", BCE): "bilstm-small",
    ("bilstm-small", RANKING): "bilstm-small-ranking",
    ("unit", BCE): "unit",
    ("unit", RANKING): "unit-ranking",
}
KINDS = tuple(dict.fromkeys(kind for kind, _ in ENERGIES))
SIMILAR = 5.0  # points of P@1


def _examine(laboratory: Laboratory, settings: Settings) -> Cells:
    texts = TextSet(settings["corpus"], settings["generator"])
    return {key: laboratory.scores(energy, [texts], texts) for key, energy in ENERGIES.items()}


def _precision(seeds: Sequence[Cells], kind: str, loss: str) -> Estimate:
    return percentage(_mean(seeds, [100 * cells[kind, loss].precisions for cells in seeds]))


def _difference(seeds: Sequence[Cells], first: tuple[str, str], second: tuple[str, str]) -> Estimate:
    return _mean(seeds, [100 * (cells[first].precisions - cells[second].precisions) for cells in seeds])


def _mean(seeds: Sequence[Cells], values: Sequence[np.ndarray]) -> Estimate:
    return mean(values, groups=[next(iter(cells.values())).documents for cells in seeds])


def _conclude(seeds: Sequence[Cells]) -> Conclusion:
    chance = 100 / next(iter(seeds[0].values())).energies.shape[1]
    precisions = {key: _precision(seeds, *key) for key in ENERGIES}
    rows = [(*key, *precision) for key, precision in precisions.items()]
    series = tuple(
        Series.of(loss, range(len(KINDS)), [precisions[kind, loss] for kind in KINDS], "points")
        for loss in (BCE, RANKING)
    )
    return Conclusion(
        tables=(Table("precision at 1", ("energy", "trained by", "P@1 (%)", "low", "high"), rows),),
        panels=(Panel("energy", "P@1 (%)", series, categories=KINDS, reference=chance, colours="trained by"),),
        findings=tuple(_findings(seeds)),
    )


def _findings(seeds: Sequence[Cells]) -> Iterator[Finding]:
    for first, second in (("bilstm-small", "linear"), ("unit", "bilstm-small")):
        yield above(
            f"By the ranking loss too, {first} beats {second}.",
            f"{first} - {second}, percentage points of P@1",
            _difference(seeds, (first, RANKING), (second, RANKING)),
        )
    for kind in KINDS:
        yield similar(
            f"Both losses find the same for {kind} (within {SIMILAR} points).",
            "ranking - binary cross-entropy, percentage points of P@1",
            _difference(seeds, (kind, RANKING), (kind, BCE)),
            SIMILAR,
        )


STUDY = Study(
    title="The ranking loss",
    part="Appendix C",
    paper=PAPER,
    method=(
        f"{SETTING} Energies are trained by max(0, 1 + E(x+) - E(x-)) and by binary cross-entropy on the same texts. "
        "P@1 is how often people's text has the lowest energy among its machine-written twins (three at size cpu: "
        "chance is 25 %). The paper prints no numbers, and says that the findings are similar with both losses."
    ),
    sizes=sizes(
        cpu={"corpus": "wikitext", "generator": "transf-big"}, paper={"corpus": "wikitext", "generator": "transf-big"}
    ),
    workspace=LABORATORY,
    examine=_examine,
    conclude=_conclude,
)
