"""Table 4.1 of Goyal 2021: a tagger trained on the cost of what its beam search finds."""

from collections.abc import Sequence

from lexergy.report.pages.study import Conclusion
from lexergy.studies.search_aware import normalisation
from lexergy.studies.search_aware.comparison import ARMS, BEAM, GREEDY, SOFT, START, THESIS, Evidence, Row, better
from lexergy.studies.search_aware.direct_loss import (
    DIRECT,
    DIRECT_CONSTANT,
    HINGE,
    HINGE_CONSTANT,
    METHOD,
    conclude,
    examine,
)
from lexergy.studies.study import Study

PRINTED = {  # dev, test
    (START, GREEDY): (80.15, 80.35),
    (START, BEAM): (82.17, 82.42),
    (START, SOFT): (81.62, 82.00),
    (HINGE, BEAM): (83.03, 83.54),
    (HINGE, SOFT): (82.82, 83.05),
    (HINGE_CONSTANT, BEAM): (83.02, 83.36),
    (HINGE_CONSTANT, SOFT): (82.49, 82.85),
    (DIRECT_CONSTANT, BEAM): (83.23, 82.65),
    (DIRECT_CONSTANT, SOFT): (82.58, 82.82),
    (DIRECT, BEAM): (85.69, 85.82),
    (DIRECT, SOFT): (85.58, 85.78),
}


def _conclude(evidence: Sequence[Evidence]) -> Conclusion:
    start = Row("", START, BEAM)
    findings = [
        better(evidence, "Beam search helps cross-entropy's tagger.", start, Row("", START, GREEDY), "accuracy"),
        better(evidence, "The hinge improves upon its start, too.", Row("", HINGE, BEAM), start, "accuracy"),
    ]
    return conclude(evidence, "accuracy", PRINTED, findings)


STUDY = Study(
    title="A tagger trained on what its beam search finds",
    part="Table 4.1 and Section 4.6",
    paper=THESIS,
    method="Composed labels of UD English-EWT stand in for CCGbank's supertags; the cost is Hamming's, among the best "
    f"50 labels of a step. {METHOD}",
    sizes=normalisation.SIZES,
    workspace=ARMS,
    examine=examine,
    conclude=_conclude,
)
