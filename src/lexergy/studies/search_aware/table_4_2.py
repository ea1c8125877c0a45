"""Table 4.2 of Goyal 2021: named entities, a wrong "O" at double cost."""

from collections.abc import Sequence

from lexergy.report.pages.study import Conclusion
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
from lexergy.studies.study import Size, Study

_BOTH = (1e-3, 3e-4)
_SETTINGS = {"beam": 3, "alpha": 10.0, "local_rates": _BOTH, "control_rates": _BOTH}
SIZES = {
    "cpu": Size("ner-cpu", {**_SETTINGS, "epochs": 2.0}),
    "paper": Size("paper/ner-german", {**_SETTINGS, "epochs": 50.0}),
}
PRINTED = {  # dev, test
    (START, GREEDY): (50.21, 54.92),
    (START, BEAM): (46.22, 51.34),
    (START, SOFT): (47.50, 52.78),
    (HINGE, BEAM): (41.10, 45.98),
    (HINGE, SOFT): (41.24, 46.34),
    (HINGE_CONSTANT, BEAM): (40.09, 44.67),
    (HINGE_CONSTANT, SOFT): (39.67, 43.82),
    (DIRECT_CONSTANT, BEAM): (49.88, 54.08),
    (DIRECT_CONSTANT, SOFT): (50.73, 54.77),
    (DIRECT, BEAM): (51.86, 56.15),
    (DIRECT, SOFT): (51.96, 56.38),
}


def _conclude(evidence: Sequence[Evidence]) -> Conclusion:
    greedy, beam = (Row("", START, name) for name in (GREEDY, BEAM))
    findings = [
        better(
            evidence, "Beam search is worse than greedy search for cross-entropy's tagger.", greedy, beam, "macro_f1"
        ),
        better(evidence, "The hinge falls below its start.", beam, Row("", HINGE, BEAM), "macro_f1"),
    ]
    return conclude(evidence, "macro_f1", PRINTED, findings, others=("f1", "accuracy"))


STUDY = Study(
    title="Entities found by a tagger that is trained on what its beam search finds",
    part="Table 4.2 and Section 4.6",
    paper=THESIS,
    method="CoNLL-2003's English part stands in for its German one, labels in IOB2. Macro F1 is the mean of the types' "
    f'F1. A wrong "O" costs double. {METHOD}',
    sizes=SIZES,
    workspace=ARMS,
    examine=examine,
    conclude=_conclude,
)
