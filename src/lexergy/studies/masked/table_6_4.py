"""Table 6.4 of Goyal 2021: blocks of positions proposed together, smaller from sweep to sweep."""

from collections.abc import Sequence

from lexergy.core.estimation.findings import above
from lexergy.report.pages.study import Conclusion
from lexergy.studies.masked.objectives import THESIS
from lexergy.studies.masked.translation import (
    BLOCK_METHOD,
    LABELS,
    METHOD,
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

DEG, RAW, NORM = BLOCKS = tuple(Sampler(kind, blocks=True) for kind in ("deg", "raw", "norm"))
SINGLE = tuple(sampler._replace(blocks=False) for sampler in BLOCKS)
PRINTED = {  # Table 6.4, and what Figure 6.2 and Table 6.2 print of single positions
    **dict(
        zip(SINGLE, (Printed(31.12, 0.36, 9.03), Printed(None, 0.11, None), Printed(11.13, 0.11, 24.74)), strict=True)
    ),
    **dict(
        zip(BLOCKS, (Printed(31.18, 0.77, 9.03), Printed(8.08, 0.40, 27.12), Printed(8.17, 0.41, 26.78)), strict=True)
    ),
}


def _examine(laboratory: TranslationLaboratory, settings: Settings) -> Seen:
    return follow(laboratory, PRINTED, settings)


def _conclude(evidence: Sequence[Seen]) -> Conclusion:
    rows = {("blocks" if sampler.blocks else "single", sampler): printed for sampler, printed in PRINTED.items()}
    by_kind = {single.kind: (single, block) for single, block in zip(SINGLE, BLOCKS, strict=True)}
    findings = []
    for block in (RAW, NORM):
        single, name = block._replace(blocks=False), LABELS[block.kind]
        findings += [
            where_mixed(
                above(
                    f"Block Gibbs performs very poorly beside block {name}.",
                    f"BLEU({block.kind}) - BLEU(deg), blocks",
                    bleu_gap(evidence, block, DEG),
                ),
                *(evidence, block, DEG),
            ),
            where_mixed(
                above(
                    f"{name}: blocks improve BLEU over single positions.",
                    f"BLEU({block.kind}), blocks - single",
                    bleu_gap(evidence, block, single),
                ),
                *(evidence, block, single),
            ),
            where_mixed(
                above(
                    f"{name}: blocks lower the energy.",
                    f"E_norm({block.kind}), single - blocks, nats per sentence",
                    gap(evidence, single, block, "energy"),
                ),
                *(evidence, block, single),
            ),
            above(
                f"{name}: blocks raise the rate of novel transitions.",
                f"novel({block.kind}), blocks - single",
                gap(evidence, block, single, "novel"),
            ),
        ]
    return Conclusion(
        tables=(samplers_table(evidence, "positions", rows), starts_table(evidence, "positions", rows)),
        panels=panels_by(evidence, "positions", ("single", "blocks"), by_kind),
        findings=tuple(findings),
    )


STUDY = Study(
    title="Translations sampled by blocks of positions",
    part="Table 6.4 and Section 6.7.3",
    paper=THESIS,
    method=f"{METHOD} {BLOCK_METHOD}",
    sizes=SIZES,
    workspace=TRANSLATION,
    examine=_examine,
    conclude=_conclude,
)
