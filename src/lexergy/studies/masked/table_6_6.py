"""Table 6.6 of Goyal 2021: translations from around the modes, beside Mask-Predict and degenerate Gibbs."""

from collections.abc import Hashable, Mapping, Sequence

import numpy as np

from lexergy.core.estimation.findings import above
from lexergy.report.pages.study import Conclusion
from lexergy.report.table import Cell, Table
from lexergy.studies.masked.objectives import THESIS
from lexergy.studies.masked.translation import (
    COOLED_SIZES,
    COOLING_METHOD,
    MODEL_METHOD,
    TRANSLATION,
    Followed,
    Sampler,
    Seen,
    average,
    bleu,
    bleu_gap,
    follow,
)
from lexergy.studies.masked.translation_tables import ENERGY_AXIS, points_panel
from lexergy.studies.study import Settings, Study
from lexergy.tasks.masked.translation import TranslationLaboratory
from lexergy.tasks.masked.translation_walks import REPLACEMENTS

TEMPERATURE, COOLING, ITERATIONS = 0.8, 0.02, 10
WARM_START, GIBBS, MASK_PREDICT, LOCAL, RAW = (
    *("warm start", f"degenerate Gibbs (T = {TEMPERATURE})", f"Mask-Predict ({ITERATIONS} iterations)"),
    *("local energy", "raw energy"),
)
SHORT = ("warm start", "Gibbs", "Mask-Predict", "MH, local", "MH, raw")
PRINTED = {WARM_START: 20.27, GIBBS: 27.88, MASK_PREDICT: 29.27, LOCAL: 29.74, RAW: 30.12}  # German to English
SAMPLERS: Mapping[str, Sampler] = {
    GIBBS: Sampler("deg", TEMPERATURE, start="greedy"),
    LOCAL: Sampler("norm", TEMPERATURE, cooling=COOLING, start="gibbs", descend=True),
    RAW: Sampler("raw", TEMPERATURE, cooling=COOLING, start="gibbs", descend=True),
}
END = slice(-1, None)  # where chains ended, and all that a greedy decoder has


def _examine(laboratory: TranslationLaboratory, settings: Settings) -> Seen:
    walks = follow(laboratory, SAMPLERS.values(), settings)
    seen: dict[Hashable, Followed] = {name: Followed(walks[sampler].walk, END) for name, sampler in SAMPLERS.items()}
    for name, iterations in ((WARM_START, 1), (MASK_PREDICT, ITERATIONS)):
        seen[name] = Followed(laboratory.mask_predicted(iterations).first(settings["sentences"]), END)
    return seen


def _conclude(evidence: Sequence[Seen]) -> Conclusion:
    rows: list[tuple[Cell, ...]] = []
    for name, printed in PRINTED.items():
        energy, score = average(evidence, name, "energy"), bleu(evidence, name)
        proven = _proven(evidence, name) if name == LOCAL else None
        rows.append((name, energy.value, energy.half_width, proven, score.value, score.half_width, printed))
    columns = ("method", "E_norm, nats per sentence", "± ", "modes for certain", "BLEU", "±  ", "BLEU, thesis")
    quantities = {
        "BLEU": [bleu(evidence, name) for name in PRINTED],
        ENERGY_AXIS: [average(evidence, name, "energy") for name in PRINTED],
    }
    return Conclusion(
        tables=(Table("translations", columns, rows),),
        panels=tuple(points_panel("", ylabel, SHORT, {"": estimates}) for ylabel, estimates in quantities.items()),
        findings=tuple(
            above(
                f"Metropolis-Hastings to a mode of the {name} is better than {baseline}.",
                f"BLEU({name}) - BLEU({baseline})",
                bleu_gap(evidence, name, baseline),
            )
            for name in (LOCAL, RAW)
            for baseline in (WARM_START, GIBBS, MASK_PREDICT)
        ),
    )


def _proven(evidence: Sequence[Seen], name: str) -> float:
    return float(np.mean([seen[name].walk.proven.mean() for seen in evidence]))


STUDY = Study(
    title="Translations from around the modes of the energies",
    part="Table 6.6 and Section 6.8",
    paper=THESIS,
    method=(
        f"{MODEL_METHOD} {COOLING_METHOD} As in the thesis, proposals have temperature {TEMPERATURE}, and between the "
        "greedy translation and the first sweep two sweeps take every proposal. After the last sweep single tokens are "
        f"replaced, by any of the {REPLACEMENTS} likeliest in their context, until no replacement lowers the energy. A "
        "token whose -log p in its context is above E_norm cannot lower that energy, whose terms are all positive: "
        "where no more tokens than were tried are below it, the end is a mode of the local energy for certain. "
        "Degenerate Gibbs starts at the greedy translation too, and its last sweep is what counts. The warm start is "
        "Mask-Predict's first iteration. BLEU is on the whole test set."
    ),
    sizes=COOLED_SIZES,
    workspace=TRANSLATION,
    examine=_examine,
    conclude=_conclude,
)
