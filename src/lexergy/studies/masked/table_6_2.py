"""Table 6.2 of Goyal 2021: Metropolis-Hastings and degenerate Gibbs under hot and cold proposals."""

from collections.abc import Sequence

from lexergy.core.estimation.findings import above, similar
from lexergy.report.pages.study import Conclusion
from lexergy.studies.masked.objectives import THESIS
from lexergy.studies.masked.translation import (
    METHOD,
    SIMILAR_BLEU,
    SIZES,
    TRANSLATION,
    Sampler,
    Seen,
    bleu_gap,
    follow,
    gap,
    where_mixed,
)
from lexergy.studies.masked.translation_tables import Printed, panels_by, samplers_table, starts_table
from lexergy.studies.study import Settings, Study
from lexergy.tasks.masked.translation import TranslationLaboratory

TEMPERATURES = (2.0, 1.5, 1.0, 0.8, 0.5)
PRINTED_NORM = (
    (12.87, 0.03, 25.91),
    (10.21, 0.05, 24.78),
    (11.13, 0.11, 24.74),
    (9.95, 0.06, 25.84),
    (7.85, 0.03, 27.23),
)
PRINTED_DEG = (
    (32.46, 1.0, 14.53),
    (29.57, 0.97, 10.12),
    (31.12, 0.36, 9.03),
    (21.12, 0.08, 24.77),
    (17.65, 0.04, 26.12),
)
NORM = tuple(Sampler("norm", temperature) for temperature in TEMPERATURES)
DEG = tuple(Sampler("deg", temperature) for temperature in TEMPERATURES)
PRINTED = dict(zip((*NORM, *DEG), map(Printed._make, (*PRINTED_NORM, *PRINTED_DEG)), strict=True))


def _examine(laboratory: TranslationLaboratory, settings: Settings) -> Seen:
    return follow(laboratory, [*NORM, *DEG], settings)


def _conclude(evidence: Sequence[Seen]) -> Conclusion:
    (hot_norm, *_, cold_norm), (hot_deg, *_, cold_deg) = NORM, DEG
    norm, deg = Sampler("norm"), Sampler("deg")
    between = f"at {cold_norm.temperature:g} - at {hot_norm.temperature:g}"
    labels = [f"{temperature:g}" for temperature in TEMPERATURES]
    rows = {(f"{sampler.temperature:g}", sampler): printed for sampler, printed in PRINTED.items()}
    return Conclusion(
        tables=(samplers_table(evidence, "temperature", rows), starts_table(evidence, "temperature", rows)),
        panels=panels_by(evidence, "temperature of the proposals", labels, {"norm": NORM, "deg": DEG}),
        findings=(
            where_mixed(
                above(
                    "Degenerate Gibbs trails behind Metropolis-Hastings.",
                    "BLEU(norm) - BLEU(deg) at temperature 1",
                    bleu_gap(evidence, norm, deg),
                ),
                *(evidence, norm, deg),
            ),
            where_mixed(
                similar(
                    "Metropolis-Hastings performs similarly at all temperatures.",
                    f"BLEU(norm) {between} (similar: within {SIMILAR_BLEU:g})",
                    bleu_gap(evidence, cold_norm, hot_norm),
                    SIMILAR_BLEU,
                ),
                *(evidence, hot_norm, cold_norm),
            ),
            where_mixed(
                above(
                    "Degenerate Gibbs improves drastically with lower temperatures.",
                    f"BLEU(deg) {between}",
                    bleu_gap(evidence, cold_deg, hot_deg),
                ),
                *(evidence, hot_deg, cold_deg),
            ),
            where_mixed(
                above(
                    "At low temperatures its energies are still worse than those of Metropolis-Hastings.",
                    f"E_norm(deg) - E_norm(norm) at {cold_deg.temperature:g}, nats per sentence",
                    gap(evidence, cold_deg, cold_norm, "energy"),
                ),
                *(evidence, cold_deg, cold_norm),
            ),
            above(
                "At high temperatures degenerate Gibbs hardly ever repeats a sentence.",
                f"novel(deg) at {hot_deg.temperature:g} - at 1",
                gap(evidence, hot_deg, deg, "novel"),
            ),
            above(
                "Metropolis-Hastings then rejects nearly everything: its novel rate falls when proposals get hotter.",
                f"novel(norm) at 1 - at {hot_norm.temperature:g}",
                gap(evidence, norm, hot_norm, "novel"),
            ),
            above(
                "Low temperatures lower its novel rate too.",
                f"novel(norm) at 1 - at {cold_norm.temperature:g}",
                gap(evidence, norm, cold_norm, "novel"),
            ),
        ),
    )


STUDY = Study(
    title="Translations sampled under hot and cold proposals",
    part="Table 6.2 and Section 6.7.1",
    paper=THESIS,
    method=METHOD,
    sizes=SIZES,
    workspace=TRANSLATION,
    examine=_examine,
    conclude=_conclude,
)
