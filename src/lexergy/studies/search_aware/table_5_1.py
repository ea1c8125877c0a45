"""Table 5.1 of Goyal 2021: how far raw scores are from being normalised, with and without self-normalisation."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from lexergy.core.estimation.corpus import corpus_estimate, mean_of, variance_of
from lexergy.core.estimation.findings import Estimate, Finding, above, similar
from lexergy.report.figures.picture import Panel, Series
from lexergy.report.pages.study import Conclusion
from lexergy.report.table import Cell, Table
from lexergy.studies.search_aware import normalisation
from lexergy.studies.search_aware.comparison import (
    ARMS,
    BEAM,
    GREEDY,
    LABELS,
    RAW,
    START,
    THESIS,
    Row,
    Seen,
    better,
    carry_out,
    gap,
    rows_table,
    start_plans,
)
from lexergy.studies.study import Settings, Study
from lexergy.tasks.search_aware.arms import ArmLaboratory, arm
from lexergy.tasks.search_aware.decodings import MetricName

STARTS = ("cross-entropy", "self-normalised")
SMALL_MEAN, SMALL_VARIANCE = 0.2, 0.6
PRINTED = {  # mean and variance of log Z, train and dev
    "cross-entropy": (21.08, 9.57, 21.96, 9.18),
    "self-normalised": (0.6, 0.29, 0.26, 0.08),
}
METHOD = (
    "log Z_t = log sum_v exp f(h_t, v) of raw scores, along the gold sequences of the first 1,000 training sentences "
    "and of all validation sentences: its mean and variance over steps. Nothing is trained search-aware here: both "
    "models are starts of the tables that follow, decoded greedily, by beam, by beam on raw scores and by soft beam."
)


class Measured(NamedTuple):
    """Of one seed: what starts wrote, and their normalisers (S, 3) by start and part."""

    rows: Mapping[Row, Seen]
    normalisers: Mapping[str, Mapping[str, np.ndarray]]


def examine(laboratory: ArmLaboratory, settings: Settings) -> Measured:
    rows: dict[Row, Seen] = {}
    for start in STARTS:
        rows |= carry_out(laboratory, start_plans(start, arm(start), settings))
    return Measured(rows, {start: laboratory.normalisers(arm(start)) for start in STARTS})


def conclude(
    evidence: Sequence[Measured], printed: Mapping[str, Sequence[float]], metric: MetricName, competitive: float
) -> Conclusion:
    """`competitive`: how far the self-normalised start may be below and still be called so."""
    rows = [measured.rows for measured in evidence]
    return Conclusion(
        tables=(_table(evidence, printed), rows_table(rows, rows[0], metric, {}, group="start")),
        panels=(_panel(evidence, "mean of log Z", mean_of), _panel(evidence, "variance of log Z", variance_of)),
        findings=_findings(evidence, metric, competitive),
    )


def _estimate(evidence: Sequence[Measured], start: str, part: str, what: Any) -> Estimate:
    return corpus_estimate([measured.normalisers[start][part] for measured in evidence], what)


def _table(evidence: Sequence[Measured], printed: Mapping[str, Sequence[float]]) -> Table:
    columns = ("start", "sentences", "mean of log Z", "±", "thesis", "variance of log Z", "± ", "thesis ")
    cells: list[tuple[Cell, ...]] = []
    for start in STARTS:
        for place, part in enumerate(("train", "validation")):
            own = [_estimate(evidence, start, part, what) for what in (mean_of, variance_of)]
            thesis = printed[start][2 * place : 2 * place + 2]
            pairs = zip(own, thesis, strict=True)
            numbers = [cell for got, told in pairs for cell in (got.value, got.half_width, told)]
            cells.append((start, part, *numbers))
    return Table("log Z", columns, cells)


def _panel(evidence: Sequence[Measured], label: str, what: Any) -> Panel:
    parts = ("train", "validation")
    series = [
        Series.of(start, [0.0, 1.0], [_estimate(evidence, start, part, what) for part in parts], style="points")
        for start in STARTS
    ]
    return Panel("", label, tuple(series), categories=parts)


def _findings(evidence: Sequence[Measured], metric: MetricName, competitive: float) -> tuple[Finding, ...]:
    rows = [measured.rows for measured in evidence]
    plain, own = (Row(start, START, BEAM) for start in STARTS)
    mean, variance = (_estimate(evidence, STARTS[1], "validation", what) for what in (mean_of, variance_of))
    least = _estimate(evidence, STARTS[0], "validation", mean_of)
    return (
        similar(
            f"Self-normalisation brings the mean of log Z to at most {SMALL_MEAN} from 0.",
            "mean of log Z, validation, self-normalised",
            *(mean, SMALL_MEAN),
        ),
        similar(
            f"Self-normalisation brings the variance of log Z below {SMALL_VARIANCE}.",
            "variance of log Z, validation, self-normalised",
            *(variance, SMALL_VARIANCE),
        ),
        above("Without it log Z is far from 0.", "mean of log Z, validation, cross-entropy", least, 1.0),
        above(
            f"The self-normalised model is competitive: at most {competitive:g} below cross-entropy's.",
            f"{LABELS[metric]}({own.label}) - {LABELS[metric]}({plain.label}), test",
            gap(rows, own, plain, metric),
            -competitive,
        ),
        better(
            rows,
            "In a model of plain cross-entropy, beam search on raw scores is worse than on log-probabilities (5.3).",
            *(plain, Row(STARTS[0], START, RAW), metric),
        ),
        better(
            rows,
            "Beam search is above greedy search in the self-normalised model.",
            *(own, Row(STARTS[1], START, GREEDY), metric),
        ),
    )


def _conclude(evidence: Sequence[Measured]) -> Conclusion:
    return conclude(evidence, PRINTED, "accuracy", competitive=1.5)


STUDY = Study(
    title="Log-normalisers of taggers, plain and self-normalised",
    part="Table 5.1 and Section 5.3.1",
    paper=THESIS,
    method=METHOD,
    sizes=normalisation.SIZES,
    workspace=ARMS,
    examine=examine,
    conclude=_conclude,
)
