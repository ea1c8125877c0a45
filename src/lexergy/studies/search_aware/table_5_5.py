"""Table 5.5 of Goyal 2021: n-gram precisions and lengths of translations, from the self-normalised start."""

from collections.abc import Callable, Sequence

import numpy as np

from lexergy.core.estimation.corpus import CorpusMetric, corpus_difference, corpus_estimate
from lexergy.core.estimation.findings import Estimate, above
from lexergy.report.figures.picture import Panel, Series
from lexergy.report.pages.study import Conclusion
from lexergy.report.table import Cell, Table
from lexergy.studies.search_aware.comparison import ARMS, BEAM, RAW, SOFT, START, THESIS, TIME, Evidence, Row, Seen
from lexergy.studies.search_aware.normalisation import GLOBAL, LOCAL
from lexergy.studies.search_aware.translation import METHOD, SELF_NORMALISED, SIZES, examine
from lexergy.studies.study import Settings, Study
from lexergy.tasks.search_aware.arms import ArmLaboratory

ORDERS = (1, 2, 3, 4)
PRINTED = {  # precisions, and the length of hypotheses to that of references
    (START, BEAM): (63.5, 35.7, 21.8, 13.7, 0.931),
    (LOCAL, SOFT): (66.9, 39.4, 22.7, 14.0, 0.918),
    (GLOBAL, SOFT): (65.0, 39.1, 23.2, 14.7, 0.959),
}
SHOWN = (*PRINTED, (START, RAW), (TIME, BEAM), (LOCAL, BEAM), (GLOBAL, BEAM))


def precision(order: int) -> CorpusMetric:
    """Of n-grams, in percent: sacreBLEU adds up both lengths, then matches and totals of each order."""

    def value(sums: np.ndarray) -> np.ndarray:  # (..., 10)
        return 100 * sums[..., 1 + order] / np.maximum(sums[..., 5 + order], 1)

    return value


def length_ratio(sums: np.ndarray) -> np.ndarray:  # (..., 10)
    """Words of the hypotheses to those of the references."""
    return sums[..., 0] / sums[..., 1]


METRICS: dict[str, CorpusMetric] = {
    **{f"{order}-gram precision": precision(order) for order in ORDERS},
    "length ratio": length_ratio,
}


def _examine(laboratory: ArmLaboratory, settings: Settings) -> dict[Row, Seen]:
    return examine(laboratory, settings, (SELF_NORMALISED,))


def _parts(evidence: Sequence[Evidence], row: tuple[str, str]) -> list[np.ndarray]:  # (S, 10) each
    """Of validation sentences, as in the thesis."""
    return [seen[Row(SELF_NORMALISED, *row)].parts["validation"].parts("bleu") for seen in evidence]


def _conclude(evidence: Sequence[Evidence]) -> Conclusion:
    columns = ["training", "decoding"]
    for number, name in enumerate(METRICS):
        columns += [name, f"±{' ' * number}", f"thesis{' ' * number}"]
    cells: list[tuple[Cell, ...]] = []
    for row in SHOWN:
        own = [corpus_estimate(_parts(evidence, row), metric) for metric in METRICS.values()]
        thesis = PRINTED.get(row, (None,) * len(METRICS))
        pairs = zip(own, thesis, strict=True)
        cells.append((*row, *(cell for got, told in pairs for cell in (got.value, got.half_width, told))))

    def gap(name: str) -> Estimate:
        return corpus_difference(_parts(evidence, (GLOBAL, BEAM)), _parts(evidence, (LOCAL, BEAM)), METRICS[name])

    findings = [above("The global model writes longer translations.", _told("length ratio"), gap("length ratio"))]
    for name in ("3-gram precision", "4-gram precision"):
        findings.append(above(f"The global model has the better {name}.", _told(name), gap(name)))
    for name in ("1-gram precision", "2-gram precision"):
        worse = Estimate(*(-end for end in (gap(name).value, gap(name).high, gap(name).low)))
        findings.append(above(f"The global model has the slightly worse {name}.", f"minus {_told(name)}", worse))
    return Conclusion(
        tables=(Table("parts of BLEU", tuple(columns), cells),),
        panels=(_panel(evidence, "precision", ORDERS, precision),),
        findings=tuple(findings),
    )


def _told(name: str) -> str:
    return f"{name}, global - local, validation"


def _panel(
    evidence: Sequence[Evidence], label: str, orders: Sequence[int], metric: Callable[[int], CorpusMetric]
) -> Panel:
    series = [
        Series.of(
            ", ".join(row),
            [float(order) for order in orders],
            [corpus_estimate(_parts(evidence, row), metric(order)) for order in orders],
        )
        for row in ((START, BEAM), (LOCAL, BEAM), (GLOBAL, BEAM))
    ]
    return Panel("n-gram", label, tuple(series))


STUDY = Study(
    title="Precisions and lengths of translations",
    part="Table 5.5 and Section 5.5.5",
    paper=THESIS,
    method=f"{METHOD} This table is of validation sentences, as in the thesis.",
    sizes=SIZES,
    workspace=ARMS,
    examine=_examine,
    conclude=_conclude,
)
