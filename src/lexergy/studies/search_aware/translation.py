"""What Tables 5.4 to 5.6 share: translators trained search-aware, from both starts."""

from collections.abc import Sequence

from lexergy.studies.search_aware.comparison import (
    CONTROLS,
    CROSS_ENTROPY,
    SELF_NORMALISED,
    Row,
    Seen,
    carry_out,
    control_plans,
    soft_beam,
    start_plans,
    trained_plans,
)
from lexergy.studies.search_aware.normalisation import GLOBAL, LOCAL
from lexergy.studies.study import Settings, Size
from lexergy.tasks.search_aware.arms import ArmLaboratory, arm

STARTS = (CROSS_ENTROPY, SELF_NORMALISED)
_SETTINGS = {"beam": 3, "alpha": 10.0}
_KINDS = ("local_rates", "global_rates", "control_rates")
SIZES = {
    "cpu": Size(
        "translation-search-cpu",
        {**_SETTINGS, **dict.fromkeys(_KINDS, (5e-4,)), "epochs": 0.5, "lengths": (4, 6, 8)},
    ),
    "paper": Size(
        "paper/translation-search",
        {**_SETTINGS, **dict.fromkeys(_KINDS, (5e-4, 2e-4)), "epochs": 20.0, "lengths": (20, 30, 40)},
    ),
}
METHOD = (
    "Sentences of Tatoeba of at most 10 words, German to English, stand in for IWSLT'14. The model is a bidirectional "
    "LSTM with attention; words are in lower case, those that training has less than five times are unknown, in what "
    "is written too. BLEU is sacreBLEU's of these words, without a tokenisation of its own. Search-aware training is "
    "the direct loss (Hamming) of the continuous relaxation of beam search among the best 50 candidates of a step, "
    f"alpha annealed. Sequences are scored by their sums, without a length penalty, as in the thesis. {CONTROLS}"
)


def examine(laboratory: ArmLaboratory, settings: Settings, starts: Sequence[str] = STARTS) -> dict[Row, Seen]:
    """Local and global search-aware training from each start, and controls."""
    seen: dict[Row, Seen] = {}
    for start in starts:
        plans = start_plans(start, arm(start), settings)
        for label, normalisation in ((LOCAL, "local"), (GLOBAL, "global")):
            trained = soft_beam(start, settings, normalisation=normalisation)
            plans |= trained_plans(start, label, trained, settings)
        plans |= control_plans(laboratory, start, soft_beam(start, settings, normalisation="local"), settings)
        seen |= carry_out(laboratory, plans)
    return seen
