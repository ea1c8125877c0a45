"""Table 6.6 of Goyal 2021: translations from around the modes, beside Mask-Predict and degenerate Gibbs."""

from collections.abc import Hashable, Mapping, Sequence

from lexergy.core.estimation.findings import above
from lexergy.report.study_page import Conclusion
from lexergy.report.table import Cell, Table
from lexergy.studies.masked.objectives import THESIS
from lexergy.studies.masked.translation import (
    COOLING_METHOD,
    METHOD,
    SIZES,
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

TEMPERATURE, COOLING, ITERATIONS = 0.8, 0.02, 10
WARM_START, GIBBS, MASK_PREDICT, LOCAL, RAW = (
    *("warm start", f"degenerate Gibbs (T = {TEMPERATURE})", f"Mask-Predict ({ITERATIONS} iterations)"),
    *("local energy", "raw energy"),
)
SHORT = ("warm start", "Gibbs", "Mask-Predict", "MH, local", "MH, raw")
PRINTED = {WARM_START: 20.27, GIBBS: 27.88, MASK_PREDICT: 29.27, LOCAL: 29.74, RAW: 30.12}  # German to English
SAMPLERS: Mapping[str, Sampler] = {
    GIBBS: Sampler("deg", TEMPERATURE),
    LOCAL: Sampler("norm", TEMPERATURE, cooling=COOLING, start="gibbs"),
    RAW: Sampler("raw", TEMPERATURE, cooling=COOLING, start="gibbs"),
}
WHOLE_TEST = " on the whole test set"
ONLY = slice(-1, None)  # where chains ended, and all that a greedy decoder has


def _examine(laboratory: TranslationLaboratory, settings: Settings) -> Seen:
    walks = follow(laboratory, SAMPLERS.values(), settings)
    seen: dict[Hashable, Followed] = {name: Followed(walks[sampler].walk, ONLY) for name, sampler in SAMPLERS.items()}
    for name, iterations in ((WARM_START, 1), (MASK_PREDICT, ITERATIONS)):
        walk = laboratory.mask_predicted(iterations)
        seen[name] = Followed(walk.first(settings["sentences"]), ONLY)
        seen[name + WHOLE_TEST] = Followed(walk, ONLY)
    return seen


def _conclude(evidence: Sequence[Seen]) -> Conclusion:
    rows: list[tuple[Cell, ...]] = []
    for name, printed in PRINTED.items():
        energy, score = average(evidence, name, "energy"), bleu(evidence, name)
        whole = bleu(evidence, name + WHOLE_TEST).value if name + WHOLE_TEST in evidence[0] else None
        rows.append((name, energy.value, energy.half_width, score.value, score.half_width, whole, printed))
    columns = (
        *("method", "E_norm, nats per sentence", "± ", "BLEU", "±  "),
        *(f"BLEU{WHOLE_TEST}", "BLEU, thesis"),
    )
    quantities = {
        "BLEU": [bleu(evidence, name) for name in PRINTED],
        ENERGY_AXIS: [average(evidence, name, "energy") for name in PRINTED],
    }
    return Conclusion(
        tables=(Table("translations", columns, rows),),
        panels=tuple(points_panel("", ylabel, SHORT, {"": estimates}) for ylabel, estimates in quantities.items()),
        findings=tuple(
            above(
                f"Metropolis-Hastings around the mode of the {name} is better than {baseline}.",
                f"BLEU({name}) - BLEU({baseline})",
                bleu_gap(evidence, name, baseline),
            )
            for name in (LOCAL, RAW)
            for baseline in (WARM_START, GIBBS, MASK_PREDICT)
        ),
    )


STUDY = Study(
    title="Translations from around the modes of the energies",
    part="Table 6.6 and Section 6.8",
    paper=THESIS,
    method=(
        f"{METHOD} {COOLING_METHOD} As in the thesis, proposals have temperature {TEMPERATURE}, and before the chains' "
        "first sweep two sweeps take every proposal. BLEU is of the last sweep, on the sentences that the chains were "
        "run on, and for the methods that cost little on the whole test set as well, where the thesis has all numbers. "
        "The warm start is Mask-Predict's first iteration."
    ),
    sizes=SIZES,
    workspace=TRANSLATION,
    examine=_examine,
    conclude=_conclude,
)
