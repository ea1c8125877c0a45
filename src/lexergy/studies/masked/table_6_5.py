"""Table 6.5 of Goyal 2021: targets cooled faster and slower."""

from collections.abc import Callable, Iterator, Sequence

from lexergy.core.estimation.findings import Estimate, Finding, above
from lexergy.report.figures.picture import Panel
from lexergy.report.pages.study import Conclusion
from lexergy.report.table import Cell, Table
from lexergy.studies.masked.objectives import THESIS
from lexergy.studies.masked.translation import (
    COOLED_SIZES,
    COOLING_METHOD,
    LABELS,
    MODEL_METHOD,
    TRANSLATION,
    Kind,
    Sampler,
    Seen,
    average,
    bleu,
    bleu_gap,
    during,
    follow,
    gap,
)
from lexergy.studies.masked.translation_tables import ENERGY_AXIS, by_sweep, points_panel
from lexergy.studies.study import Settings, Study
from lexergy.tasks.masked.translation import TranslationLaboratory

COOLINGS = (0.02, 0.04, 0.06)
KINDS: tuple[Kind, ...] = ("norm", "raw")
SAMPLERS = tuple(Sampler(kind, cooling=cooling, start="greedy") for kind in KINDS for cooling in COOLINGS)
PRINTED = (  # best E_norm, mean acceptance, best BLEU
    *((3277.6, 0.52, 29.16), (3245.65, 0.45, 27.58), (3187.80, 0.41, 26.95)),
    *((3146.4, 0.71, 29.91), (3088.65, 0.62, 28.32), (2146.34, 0.58, 27.21)),
)


def _examine(laboratory: TranslationLaboratory, settings: Settings) -> Seen:
    return follow(laboratory, SAMPLERS, settings)


def _conclude(evidence: Sequence[Seen]) -> Conclusion:
    ended = during(evidence, slice(-1, None))
    return Conclusion(
        tables=(_table(evidence, ended),),
        panels=(
            _panel("BLEU at the end", lambda sampler: bleu(ended, sampler)),
            _panel(ENERGY_AXIS, lambda sampler: average(ended, sampler, "energy")),
            _panel("accepted", lambda sampler: average(evidence, sampler, "acceptance")),
        ),
        findings=tuple(finding for kind in KINDS for finding in _findings(evidence, ended, kind)),
    )


def _table(evidence: Sequence[Seen], ended: Sequence[Seen]) -> Table:
    columns = (
        *("sampler", "cooling per sweep", "best E_norm, nats per sentence", "E_norm at the end", "± "),
        *("best E_norm, thesis", "accepted", "accepted, thesis"),
        *("best BLEU", "BLEU at the end", "±  ", "best BLEU, thesis"),
    )
    rows: list[tuple[Cell, ...]] = []
    for sampler, (printed_energy, printed_accepted, printed_bleu) in zip(SAMPLERS, PRINTED, strict=True):
        energy, score = average(ended, sampler, "energy"), bleu(ended, sampler)
        best_energy, best_bleu = (by_sweep(evidence, [sampler], quantity)[0].y for quantity in ("energy", "bleu"))
        rows.append(
            (
                *(LABELS[sampler.kind], sampler.cooling, min(best_energy), energy.value, energy.half_width),
                *(printed_energy, average(evidence, sampler, "acceptance").value, printed_accepted),
                *(max(best_bleu), score.value, score.half_width, printed_bleu),
            )
        )
    return Table("cooled targets", columns, rows)


def _findings(evidence: Sequence[Seen], ended: Sequence[Seen], kind: Kind) -> Iterator[Finding]:
    slow, *_, fast = (sampler for sampler in SAMPLERS if sampler.kind == kind)
    name, between = LABELS[kind], f"at {slow.cooling} - at {fast.cooling}"
    yield above(
        f"{name}: the slowest cooling gives the best BLEU.", f"BLEU at the end, {between}", bleu_gap(ended, slow, fast)
    )
    yield above(
        f"{name}: faster cooling gives lower energies.",
        f"E_norm at the end, {between}, nats per sentence",
        gap(ended, slow, fast, "energy"),
    )
    yield above(
        f"{name}: faster cooling accepts less.", f"accepted, {between}", gap(evidence, slow, fast, "acceptance")
    )


def _panel(ylabel: str, estimate: Callable[[Sampler], Estimate]) -> Panel:
    estimates = {LABELS[kind]: [estimate(sampler) for sampler in SAMPLERS if sampler.kind == kind] for kind in KINDS}
    return points_panel("cooling per sweep", ylabel, [f"{cooling:g}" for cooling in COOLINGS], estimates)


STUDY = Study(
    title="Targets cooled faster and slower",
    part="Table 6.5 and Section 6.8",
    paper=THESIS,
    method=f"{MODEL_METHOD} {COOLING_METHOD}",
    sizes=COOLED_SIZES,
    workspace=TRANSLATION,
    examine=_examine,
    conclude=_conclude,
)
