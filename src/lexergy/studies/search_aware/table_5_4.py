"""Table 5.4 of Goyal 2021: BLEU of translators trained search-aware, from both starts."""

from collections.abc import Sequence

from lexergy.core.estimation.findings import Finding
from lexergy.report.pages.study import Conclusion
from lexergy.studies.search_aware.comparison import (
    ARMS,
    BEAM,
    CROSS_ENTROPY,
    GREEDY,
    RAW,
    SELF_NORMALISED,
    SOFT,
    START,
    THESIS,
    TIME,
    UPDATES,
    Evidence,
    Printed,
    Row,
    better,
    rows_panel,
    rows_table,
)
from lexergy.studies.search_aware.normalisation import GLOBAL, LOCAL
from lexergy.studies.search_aware.translation import METHOD, SIZES, STARTS, examine
from lexergy.studies.study import Study

_ROWS = ((START, GREEDY), (START, BEAM), (LOCAL, SOFT), (GLOBAL, SOFT))
_VALUES = {CROSS_ENTROPY: (26.24, 27.62, 29.28, 26.24), SELF_NORMALISED: (25.42, 26.63, 27.71, 29.27)}
PRINTED = {
    Row(start, *row): Printed(test=value)
    for start, values in _VALUES.items()
    for row, value in zip(_ROWS, values, strict=True)
}
PRINTED[Row(CROSS_ENTROPY, START, RAW)] = Printed(test=4.30)  # Section 5.3


def _conclude(evidence: Sequence[Evidence]) -> Conclusion:
    rows = list(evidence[0])
    return Conclusion(
        tables=(rows_table(evidence, rows, "bleu", PRINTED, group="start"),),
        panels=(rows_panel(evidence, rows, "bleu"),),
        findings=tuple(_findings(evidence)),
    )


def _findings(evidence: Sequence[Evidence]) -> list[Finding]:
    def row(start: str, training: str, decoding: str = BEAM) -> Row:
        return Row(start, training, decoding)

    findings = []
    for start in STARTS:
        local = row(start, LOCAL)
        comparisons = {
            f"From {start}: beam search is above greedy search.": (row(start, START), row(start, START, GREEDY)),
            f"From {start}: local search-aware training improves upon the start.": (local, row(start, START)),
            f"From {start}: it is above the start {UPDATES}.": (local, row(start, UPDATES)),
            f"From {start}: it is above the start {TIME}.": (local, row(start, TIME)),
            f"From {start}: global search-aware training is above the start on raw scores.": (
                row(start, GLOBAL),
                row(start, START, RAW),
            ),
        }
        findings += [better(evidence, sentence, *pair, "bleu") for sentence, pair in comparisons.items()]
    regular, own = (row(start, GLOBAL) for start in STARTS)
    findings += [
        better(
            evidence,
            "From cross-entropy, global search-aware training is below local: its start is improper.",
            *(row(CROSS_ENTROPY, LOCAL), regular, "bleu"),
        ),
        better(
            evidence,
            "From a self-normalised start, global search-aware training is above local.",
            *(own, row(SELF_NORMALISED, LOCAL), "bleu"),
        ),
        better(
            evidence,
            "Global search-aware training is better from a self-normalised start than from cross-entropy.",
            *(own, regular, "bleu"),
        ),
    ]
    return findings


STUDY = Study(
    title="Translators trained search-aware, local and global",
    part="Table 5.4 and Section 5.5",
    paper=THESIS,
    method=METHOD,
    sizes=SIZES,
    workspace=ARMS,
    examine=examine,
    conclude=_conclude,
)
