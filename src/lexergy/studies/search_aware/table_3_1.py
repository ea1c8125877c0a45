"""Table 3.1 of Goyal 2021: scheduled sampling and its relaxations, of entities."""

from collections.abc import Sequence

from lexergy.report.pages.study import Conclusion
from lexergy.studies.search_aware.comparison import ARMS, CROSS_ENTROPY, THESIS, Evidence, Row, Seen
from lexergy.studies.search_aware.scheduled import (
    ANNEALED,
    FIXED,
    HARD,
    METHOD,
    Scheduling,
    conclude,
    examine,
)
from lexergy.studies.study import Settings, Size, Study
from lexergy.tasks.search_aware.arms import ArmLaboratory

SETTINGS = {"beam": 3, "alpha": 5.0, "last_alpha": 10.0}
SIZES = {
    "cpu": Size("ner-cpu", {**SETTINGS, "half_at": (0.75,)}),
    "paper": Size("paper/ner-german", {**SETTINGS, "half_at": (1.5, 0.75, 0.25)}),
}
SCHEDULING = Scheduling(None, {})
PRINTED = {  # dev, test
    (CROSS_ENTROPY, ""): (49.43, 53.32),
    (HARD, "greedy"): (49.75, 54.83),
    (HARD, "sampled"): (50.90, 54.60),
    (FIXED, "greedy"): (51.65, 55.88),
    (FIXED, "sampled"): (51.13, 56.25),
    (ANNEALED, "greedy"): (51.43, 56.33),
    (ANNEALED, "sampled"): (50.99, 54.20),
}


def _examine(laboratory: ArmLaboratory, settings: Settings) -> dict[Row, Seen]:
    return examine(laboratory, settings, SCHEDULING)


def _conclude(evidence: Sequence[Evidence]) -> Conclusion:
    return conclude(evidence, "f1", PRINTED)


STUDY = Study(
    title="Scheduled sampling and its relaxations: entities",
    part="Table 3.1 and Section 3.3.4",
    paper=THESIS,
    method="CoNLL-2003's English part stands in for its German one; F1 is of all entities. All begin from scratch with "
    f"as many updates as cross-entropy has. {METHOD} Cross-entropy is trained once more with as much processor time.",
    sizes=SIZES,
    workspace=ARMS,
    examine=_examine,
    conclude=_conclude,
)
