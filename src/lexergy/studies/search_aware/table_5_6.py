"""Table 5.6 of Goyal 2021: BLEU by the length of the source, from the self-normalised start."""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from lexergy.core.estimation.corpus import corpus_difference, corpus_estimate
from lexergy.core.estimation.findings import Estimate, above
from lexergy.report.figures.picture import Panel, Series
from lexergy.report.pages.study import Conclusion
from lexergy.report.table import Cell, Table
from lexergy.studies.search_aware.comparison import ARMS, BEAM, RAW, SOFT, START, THESIS, TIME, Evidence, Row
from lexergy.studies.search_aware.normalisation import GLOBAL, LOCAL
from lexergy.studies.search_aware.translation import METHOD, SELF_NORMALISED, SIZES, examine
from lexergy.studies.study import Settings, Study
from lexergy.tasks.search_aware.arms import ArmLaboratory
from lexergy.tasks.search_aware.decodings import metric_function

PRINTED = {  # up to 20 words, 30, 40, more
    (START, BEAM): (29.36, 25.73, 24.71, 24.50),
    (LOCAL, SOFT): (32.35, 26.95, 25.39, 25.2),
    (GLOBAL, SOFT): (33.21, 28.08, 26.75, 26.41),
}
SHOWN = (*PRINTED, (START, RAW), (TIME, BEAM), (LOCAL, BEAM), (GLOBAL, BEAM))
LENGTHS = ("shortest", "short", "long", "longest")


class Measured(NamedTuple):
    """Of one seed, and the longest lengths of the groups but the last."""

    rows: Evidence
    ends: Sequence[int]

    def parts(self, row: tuple[str, str], group: int) -> np.ndarray:  # (S, 10)
        written = self.rows[Row(SELF_NORMALISED, *row)].parts["validation"]
        return written.where(*list(pairwise([0, *self.ends, math.inf]))[group]).parts("bleu")


def _examine(laboratory: ArmLaboratory, settings: Settings) -> Measured:
    return Measured(examine(laboratory, settings, (SELF_NORMALISED,)), settings["lengths"])


def _score(evidence: Sequence[Measured], row: tuple[str, str], group: int) -> Estimate:
    return corpus_estimate([measured.parts(row, group) for measured in evidence], metric_function("bleu"))


def _conclude(evidence: Sequence[Measured]) -> Conclusion:
    ends = evidence[0].ends
    names = [f"{first + 1}-{last}" for first, last in pairwise([0, *ends])] + [f"over {ends[-1]}"]
    columns = ["training", "decoding"]
    for number, name in enumerate(names):
        columns += [f"{name} words", f"±{' ' * number}", f"thesis, {LENGTHS[number]}"]
    cells: list[tuple[Cell, ...]] = []
    for row in SHOWN:
        own = [_score(evidence, row, group) for group in range(len(names))]
        thesis = PRINTED.get(row, (None,) * len(names))
        pairs = zip(own, thesis, strict=True)
        cells.append((*row, *(cell for got, told in pairs for cell in (got.value, got.half_width, told))))
    series = [
        Series.of(
            ", ".join(row),
            [float(group) for group in range(len(names))],
            [_score(evidence, row, group) for group in range(len(names))],
            style="points",
        )
        for row in ((START, BEAM), (LOCAL, BEAM), (GLOBAL, BEAM))
    ]
    findings = [
        above(
            f"The global model is above the local one on sentences of {name} words.",
            f"BLEU, global - local, {name} words, validation",
            corpus_difference(
                [measured.parts((GLOBAL, BEAM), group) for measured in evidence],
                [measured.parts((LOCAL, BEAM), group) for measured in evidence],
                metric_function("bleu"),
            ),
        )
        for group, name in enumerate(names)
    ]
    return Conclusion(
        tables=(Table("BLEU by length", tuple(columns), cells),),
        panels=(Panel("words of the source", "BLEU, validation", tuple(series), categories=tuple(names)),),
        findings=tuple(findings),
    )


STUDY = Study(
    title="Translations by the length of their source",
    part="Table 5.6 and Section 5.5.5",
    paper=THESIS,
    method=f"{METHOD} This table is of validation sentences, as in the thesis, whose groups of lengths (up to 20 "
    "words, 30, 40, more) are replaced by shorter ones.",
    sizes=SIZES,
    workspace=ARMS,
    examine=_examine,
    conclude=_conclude,
)
