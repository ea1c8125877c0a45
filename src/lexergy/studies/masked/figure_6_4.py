"""Figure 6.4 of Goyal 2021: both energies as cooled targets, sweep by sweep."""

from collections.abc import Sequence

from lexergy.core.estimation.findings import above
from lexergy.report.figures.picture import Panel
from lexergy.report.pages.study import Conclusion
from lexergy.studies.masked.objectives import THESIS
from lexergy.studies.masked.translation import (
    COOLED_SIZES,
    COOLING_METHOD,
    LABELS,
    MODEL_METHOD,
    TRANSLATION,
    Sampler,
    Seen,
    bleu_gap,
    during,
    follow,
    gap,
)
from lexergy.studies.masked.translation_tables import ENERGY_AXIS, by_sweep, sweeps_table
from lexergy.studies.study import Settings, Study
from lexergy.tasks.masked.translation import TranslationLaboratory

COOLING = 0.02
RAW, NORM = COOLED = tuple(Sampler(kind, cooling=COOLING, start="greedy") for kind in ("raw", "norm"))
PLAIN = tuple(sampler._replace(cooling=0.0) for sampler in COOLED)


def _examine(laboratory: TranslationLaboratory, settings: Settings) -> Seen:
    return follow(laboratory, [*COOLED, *PLAIN], settings)


def _conclude(evidence: Sequence[Seen]) -> Conclusion:
    accepted, energies, scores = (by_sweep(evidence, COOLED, quantity) for quantity in ("acceptance", "energy", "bleu"))
    ended = during(evidence, slice(-1, None))
    cooler = [
        above(
            f"{LABELS[cooled.kind]}: cooling leads to much lower energies.",
            f"E_norm at the end ({cooled.kind}), not cooled - cooled, nats per sentence",
            gap(ended, plain, cooled, "energy"),
        )
        for cooled, plain in zip(COOLED, PLAIN, strict=True)
    ]
    return Conclusion(
        tables=(sweeps_table({"accepted": accepted, "E_norm": energies, "BLEU": scores}),),
        panels=(
            Panel("sweep", "accepted proposals", tuple(accepted)),
            Panel("sweep", ENERGY_AXIS, tuple(energies)),
            Panel("sweep", "BLEU", tuple(scores)),
        ),
        findings=(
            *cooler,
            above(
                "The raw energy accepts more than the locally normalised one.",
                "accepted(raw) - accepted(norm)",
                gap(evidence, RAW, NORM, "acceptance"),
            ),
            above(
                "And gives the higher BLEU.",
                "BLEU(raw) - BLEU(norm) at the end",
                bleu_gap(ended, RAW, NORM),
            ),
        ),
    )


STUDY = Study(
    title="Both energies as cooled targets, sweep by sweep",
    part="Figure 6.4 and Section 6.8",
    paper=THESIS,
    method=f"{MODEL_METHOD} {COOLING_METHOD}",
    sizes=COOLED_SIZES,
    workspace=TRANSLATION,
    examine=_examine,
    conclude=_conclude,
)
