"""Table 5.2 of Goyal 2021: taggers trained search-aware from a start of plain cross-entropy."""

from collections.abc import Sequence

from lexergy.report.pages.study import Conclusion
from lexergy.studies.search_aware.comparison import (
    ARMS,
    BEAM,
    GREEDY,
    RAW,
    START,
    THESIS,
    Evidence,
    Row,
    Seen,
    better,
)
from lexergy.studies.search_aware.normalisation import (
    METHOD,
    SIZES,
    conclude,
    examine,
    global_like_local,
    printed_rows,
)
from lexergy.studies.study import Settings, Study
from lexergy.tasks.search_aware.arms import ENCODERS, ArmLaboratory

BEAM_GAIN, RAW_GAIN = 2.0, 3.0
PRINTED = printed_rows((76.54, 77.76, 83.9, 83.93), (92.59, 93.29, 93.76, 93.73))


def _examine(laboratory: ArmLaboratory, settings: Settings) -> dict[Row, Seen]:
    return examine(laboratory, settings, "cross-entropy")


def _conclude(evidence: Sequence[Evidence]) -> Conclusion:
    greedy, beam, raw = (Row("unidirectional", START, name) for name in (GREEDY, BEAM, RAW))
    findings = [
        better(
            evidence,
            f"unidirectional: beam search gains at least {BEAM_GAIN:g} points over greedy search.",
            *(beam, greedy, "accuracy", BEAM_GAIN),
        ),
        better(
            evidence,
            f"unidirectional: raw scores gain at least {RAW_GAIN:g} points over log-probabilities, without training "
            "(ours: label bias of the start, undone by search alone).",
            *(raw, beam, "accuracy", RAW_GAIN),
        ),
    ]
    findings += [
        global_like_local(
            evidence,
            encoder,
            f"{encoder}: from a start of cross-entropy, global normalisation is no better than local.",
        )
        for encoder in ENCODERS
    ]
    return conclude(evidence, PRINTED, findings)


STUDY = Study(
    title="Taggers trained search-aware from a cross-entropy start",
    part="Table 5.2 and Section 5.5",
    paper=THESIS,
    method=METHOD,
    sizes=SIZES,
    workspace=ARMS,
    examine=_examine,
    conclude=_conclude,
)
