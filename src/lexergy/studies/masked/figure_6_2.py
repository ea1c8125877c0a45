"""Figure 6.2 of Goyal 2021: energy and BLEU of both Metropolis-Hastings samplers and of degenerate Gibbs by sweep."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from lexergy.core.estimation.findings import Finding, above, mean
from lexergy.report.figures.picture import Panel
from lexergy.report.pages.study import Conclusion
from lexergy.studies.masked.objectives import THESIS
from lexergy.studies.masked.translation import (
    METHOD,
    SIZES,
    TRANSLATION,
    Followed,
    Sampler,
    Seen,
    bleu_gap,
    follow,
    gap,
    started,
    where_mixed,
)
from lexergy.studies.masked.translation_tables import (
    ENERGY_AXIS,
    Printed,
    by_sweep,
    samplers_table,
    starts_table,
    sweeps_table,
)
from lexergy.studies.study import Settings, Study
from lexergy.tasks.masked.starts import DISPERSED
from lexergy.tasks.masked.translation import TranslationLaboratory

RAW, NORM, DEG = SAMPLERS = tuple(Sampler(kind) for kind in ("raw", "norm", "deg"))
# Section 6.6 prints rates, and Table 6.2 energies and BLEU at the same settings.
PRINTED = (Printed(None, 0.11, None), Printed(11.13, 0.13, 24.74), Printed(31.12, 0.36, 9.03))
START = "start"
GREEDY = DISPERSED.index("greedy")  # the chains that start so


def _examine(laboratory: TranslationLaboratory, settings: Settings) -> Seen:
    seen = follow(laboratory, SAMPLERS, settings)
    return seen | {START: Followed(seen[DEG].walk, slice(0, 1), GREEDY)}


def _conclude(evidence: Sequence[Seen]) -> Conclusion:
    greedy = started(evidence, GREEDY)
    energies, scores = (by_sweep(greedy, SAMPLERS, quantity) for quantity in ("energy", "bleu"))
    starts = [
        replace(by_sweep(started(evidence, chain), [NORM], "energy")[0], label=f"from {name}")
        for chain, name in enumerate(DISPERSED)
    ]
    rows = {("single", sampler): printed for sampler, printed in zip(SAMPLERS, PRINTED, strict=True)}
    return Conclusion(
        tables=(
            samplers_table(evidence, "positions", rows),
            starts_table(evidence, "positions", rows),
            sweeps_table({"E_norm": energies, "BLEU": scores, "E_norm, MH, norm": starts}),
        ),
        panels=(
            Panel("sweep", ENERGY_AXIS, tuple(energies), "greedy start"),
            Panel("sweep", "BLEU", tuple(scores), "greedy start"),
            Panel("sweep", ENERGY_AXIS, tuple(starts), "MH, norm"),
        ),
        findings=(*_findings(evidence),),
    )


def _findings(evidence: Sequence[Seen]) -> list[Finding]:
    ahead = [
        finding
        for sampler in (RAW, NORM)
        for finding in (
            where_mixed(
                above(
                    f"Metropolis-Hastings on the {sampler.kind} energy writes better translations than Gibbs.",
                    f"BLEU({sampler.kind}) - BLEU(deg)",
                    bleu_gap(evidence, sampler, DEG),
                ),
                *(evidence, sampler, DEG),
            ),
            where_mixed(
                above(
                    "And of lower energy.",
                    f"E_norm(deg) - E_norm({sampler.kind}), nats per sentence",
                    gap(evidence, DEG, sampler, "energy"),
                ),
                *(evidence, sampler, DEG),
            ),
        )
    ]
    return [
        *ahead,
        where_mixed(
            above(
                "Degenerate Gibbs degrades the greedy start.",
                "BLEU(start) - BLEU(deg)",
                bleu_gap(evidence, START, DEG),
            ),
            *(evidence, DEG),
        ),
        above(
            "Sentences of low energy have a high BLEU.",
            "correlation of -E_norm with the share of words that are the reference's, over the samples of a sentence",
            mean([_correlations(seen) for seen in evidence]),
        ),
        above(
            "Metropolis-Hastings moves less often than degenerate Gibbs: it mixes slowly.",
            "novel(deg) - novel(norm)",
            gap(evidence, DEG, NORM, "novel"),
        ),
    ]


def _correlations(seen: Seen) -> np.ndarray:  # -> (sentences whose samples differ,)
    """Pearson's, within each sentence, over the samples of all three samplers."""
    followed = [seen[sampler] for sampler in SAMPLERS]
    energy = np.concatenate([part.energies.reshape(len(part.energies), -1) for part in followed], axis=1)  # (S, n)
    num_words, right = (
        np.concatenate([part.statistics[..., place].reshape(len(energy), -1) for part in followed], axis=1)
        for place in (0, 2)
    )
    share = right / np.maximum(num_words, 1)
    differ = (energy.std(axis=1) > 0) & (share.std(axis=1) > 0)
    return np.array([np.corrcoef(-e, s)[0, 1] for e, s in zip(energy[differ], share[differ], strict=True)])


STUDY = Study(
    title="Energy and BLEU of sampled translations, sweep by sweep",
    part="Figure 6.2 and Section 6.6",
    paper=THESIS,
    method=METHOD,
    sizes=SIZES,
    workspace=TRANSLATION,
    examine=_examine,
    conclude=_conclude,
)
