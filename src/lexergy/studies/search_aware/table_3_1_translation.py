"""Table 3.1 of Goyal 2021: scheduled sampling and its relaxations, of translations."""

from collections.abc import Sequence

from lexergy.report.pages.study import Conclusion
from lexergy.studies.search_aware.comparison import ARMS, CROSS_ENTROPY, LAST, THESIS, Evidence, Row, Seen
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

_SETTINGS = {"beam": 3, "alpha": 5.0, "last_alpha": 10.0, "learning_rate": 5e-4}
SIZES = {
    "cpu": Size("translation-search-cpu", {**_SETTINGS, "epochs": 0.5, "half_at": (0.75,)}),
    "paper": Size("paper/translation-search", {**_SETTINGS, "epochs": 20.0, "half_at": (1.5, 0.75)}),
}
PRINTED = {  # dev, test
    (CROSS_ENTROPY, ""): (20.35, 19.11),
    (HARD, "greedy"): (20.52, 19.85),
    (HARD, "sampled"): (20.40, 19.69),
    (FIXED, "greedy"): (21.32, 20.28),
    (FIXED, "sampled"): (20.48, 19.69),
    (ANNEALED, "greedy"): (21.28, 20.18),
    (ANNEALED, "sampled"): (21.36, 20.60),
}


def _examine(laboratory: ArmLaboratory, settings: Settings) -> dict[Row, Seen]:
    learning = {name: settings[name] for name in ("epochs", "learning_rate")}
    return examine(laboratory, settings, Scheduling(CROSS_ENTROPY, learning | LAST))


def _conclude(evidence: Sequence[Evidence]) -> Conclusion:
    return conclude(evidence, "bleu", PRINTED)


STUDY = Study(
    title="Scheduled sampling and its relaxations: translations",
    part="Table 3.1 and Section 3.3.4",
    paper=THESIS,
    method="Short sentences of Tatoeba, German to English, stand in for IWSLT'14. All go on from a model of "
    f"cross-entropy, whose training the thesis's first epoch is. {METHOD} Cross-entropy goes on, too, with as many "
    "updates and with as much processor time.",
    sizes=SIZES,
    workspace=ARMS,
    examine=_examine,
    conclude=_conclude,
)
