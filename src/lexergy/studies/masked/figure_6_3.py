"""Figure 6.3 of Goyal 2021: acceptance while blocks get smaller."""

from collections.abc import Sequence
from dataclasses import replace

from lexergy.core.estimation.findings import Finding, above
from lexergy.report.figures.picture import Panel
from lexergy.report.pages.study import Conclusion
from lexergy.studies.masked.objectives import THESIS
from lexergy.studies.masked.table_6_4 import BLOCKS, NORM, RAW
from lexergy.studies.masked.translation import (
    BLOCK_METHOD,
    LABELS,
    METHOD,
    SIZES,
    TRANSLATION,
    Sampler,
    Seen,
    follow,
    gap,
    started,
)
from lexergy.studies.masked.translation_tables import by_sweep, sweeps_table
from lexergy.studies.study import Settings, Study
from lexergy.tasks.masked.starts import DISPERSED
from lexergy.tasks.masked.translation import TranslationLaboratory


def _examine(laboratory: TranslationLaboratory, settings: Settings) -> Seen:
    return follow(laboratory, BLOCKS, settings)


def _conclude(evidence: Sequence[Seen]) -> Conclusion:
    evidence = started(evidence, DISPERSED.index("greedy"))
    accepted, novel = (by_sweep(evidence, BLOCKS, quantity) for quantity in ("acceptance", "novel"))
    return Conclusion(
        tables=(sweeps_table({"accepted": accepted, "novel": novel}),),
        panels=(
            Panel("sweep", "accepted proposals", tuple(accepted)),
            Panel("sweep", "novel transitions", tuple(novel)),
        ),
        findings=tuple(_finding(evidence, sampler) for sampler in (RAW, NORM)),
    )


def _finding(evidence: Sequence[Seen], sampler: Sampler) -> Finding:
    """The first quarter of the sweeps against the last."""
    quarter = (evidence[0][sampler].walk.local.shape[2] - 1) // 4 or 1
    parts: list[Seen] = [
        {
            "first": replace(seen[sampler], sweeps=slice(1, 1 + quarter)),
            "last": replace(seen[sampler], sweeps=slice(-quarter, None)),
        }
        for seen in evidence
    ]
    return above(
        f"{LABELS[sampler.kind]}: acceptance is high at first, while blocks are large, and more selective later.",
        f"accepted in the first quarter of the sweeps - in the last quarter ({sampler.kind})",
        gap(parts, "first", "last", "acceptance"),
    )


STUDY = Study(
    title="Acceptance while blocks get smaller",
    part="Figure 6.3 and Section 6.7.3",
    paper=THESIS,
    method=f"{METHOD} {BLOCK_METHOD} Rates are those of the chains with the greedy start.",
    sizes=SIZES,
    workspace=TRANSLATION,
    examine=_examine,
    conclude=_conclude,
)
