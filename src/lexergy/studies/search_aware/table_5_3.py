"""Table 5.3 of Goyal 2021: taggers trained search-aware from a self-normalised start."""

from collections.abc import Sequence

from lexergy.report.pages.study import Conclusion
from lexergy.studies.search_aware.comparison import ARMS, BEAM, THESIS, Evidence, Row, Seen, better
from lexergy.studies.search_aware.normalisation import (
    GLOBAL,
    METHOD,
    SIZES,
    conclude,
    examine,
    global_above_local,
    global_like_local,
    printed_rows,
)
from lexergy.studies.study import Settings, Study
from lexergy.tasks.search_aware.arms import ArmLaboratory

PRINTED = printed_rows((73.12, 73.83, 83.35, 85.50), (91.23, 91.94, 92.78, 92.63))
RIVALS = {"beam-crf": "Andor et al.'s CRF over the beam", "beam-search-optimisation": "Wiseman & Rush's margins"}


def _examine(laboratory: ArmLaboratory, settings: Settings) -> dict[Row, Seen]:
    return examine(laboratory, settings, "self-normalised", tuple(RIVALS))


def _conclude(evidence: Sequence[Evidence]) -> Conclusion:
    best = Row("unidirectional", GLOBAL, BEAM)
    findings = [
        global_above_local(
            evidence,
            "unidirectional",
            "unidirectional: the globally normalised model is above the local one, since it is the more expressive.",
        ),
        global_like_local(
            evidence, "bidirectional", "bidirectional: with the whole input, global and local are about as good."
        ),
        *(
            better(
                evidence,
                f"unidirectional: the soft beam is above {name}.",
                *(best, Row("unidirectional", rival, BEAM), "accuracy"),
            )
            for rival, name in RIVALS.items()
        ),
    ]
    return conclude(evidence, PRINTED, findings)


STUDY = Study(
    title="Taggers trained search-aware from a self-normalised start",
    part="Table 5.3 and Section 5.5",
    paper=THESIS,
    method=f"{METHOD} The self-normalised start has the penalty (log Z)^2 at each step. Two rivals that know of the "
    "beam are trained too, unidirectional and global: a CRF normalised over the beam with early updates (Andor et al. "
    "2016), and beam-search optimisation (Wiseman & Rush 2016).",
    sizes=SIZES,
    workspace=ARMS,
    examine=_examine,
    conclude=_conclude,
)
