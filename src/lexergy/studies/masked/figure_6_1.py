"""Figure 6.1 of Goyal 2021: a masked LM of much data projected to an energy on little."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from lexergy.core.estimation.findings import Finding, above, mean
from lexergy.report.picture import Panel, Series
from lexergy.report.study_page import Conclusion
from lexergy.report.table import Cell, Table
from lexergy.studies.masked.objectives import EXPERIMENT, THESIS, Facts, over_seeds
from lexergy.studies.study import Settings, Size, Study
from lexergy.tasks.masked.objectives import Experiment, ObjectiveName, Source

METHODS: dict[ObjectiveName, str] = {"pseudo_likelihood": "PLL only", "kl": "KL", "kl_pll": "KL + PLL"}
PROJECTIONS: tuple[ObjectiveName, ...] = ("kl", "kl_pll")
SOURCES: dict[Source, str] = {"p": "palindromes", "h": "HMM"}
PRETRAINING = 100_000  # sequences
SIZES = (100, 300, 1000, 3000, 10000)
LITTLE = 1000


class Curves(NamedTuple):
    """What one seed gave on one distribution."""

    masked_lm: Facts  # of the masked LM trained on much data
    trained: Mapping[ObjectiveName, Mapping[int, Facts]]  # method -> size -> held-out numbers

    def nll(self, method: ObjectiveName) -> np.ndarray:
        """By size."""
        return np.array([facts["nll"] for facts in self.trained[method].values()])

    def better_than_masked_lm(self, method: ObjectiveName) -> np.ndarray:
        return self.masked_lm["nll"] - self.nll(method)

    def better_on_little(self, method: ObjectiveName) -> np.ndarray:
        little = np.array(list(self.trained[method])) < LITTLE
        return (self.nll("pseudo_likelihood") - self.nll(method))[little]


Evidence = Mapping[Source, Curves]


def _examine(experiment: Experiment, settings: Settings) -> Evidence:
    curves = {}
    for source in SOURCES:
        teacher = experiment.trained(source, PRETRAINING, "masked_conditionals")
        trained = {
            method: {
                size: experiment.trained(source, size, method, teacher=teacher if method in PROJECTIONS else None).facts
                for size in SIZES
            }
            for method in METHODS
        }
        curves[source] = Curves(teacher.facts, trained)
    return curves


def _conclude(evidence: Sequence[Evidence]) -> Conclusion:
    rows: list[tuple[Cell, ...]] = []
    for source, name in SOURCES.items():
        for place, size in enumerate(SIZES):
            values = [over_seeds([seen[source].nll(method)[place] for seen in evidence]).value for method in METHODS]
            rows.append((name, size, *values, *_references(evidence, source)))
    return Conclusion(
        tables=(Table("held-out NLL, nats", ("data", "sequences", *METHODS.values(), "MLM of 100k", "true"), rows),),
        panels=tuple(_panel(evidence, source) for source in SOURCES),
        findings=tuple(_findings(evidence)),
    )


def _findings(evidence: Sequence[Evidence]) -> Iterator[Finding]:
    for method, name in METHODS.items():
        yield above(
            f"{name} makes a better model than the energy of the masked LM trained on 100,000 sequences.",
            f"NLL(MLM) - NLL({name}), mean over distributions and sizes, nats",
            mean(
                [
                    np.concatenate([seen[source].better_than_masked_lm(method) for source in SOURCES])
                    for seen in evidence
                ]
            ),
        )
    for method in PROJECTIONS:
        yield above(
            f"On little data {METHODS[method]} is better than the pseudo-likelihood from scratch.",
            f"NLL(PLL only) - NLL({METHODS[method]}), mean over distributions and the sizes below {LITTLE:,}, nats",
            mean([np.concatenate([seen[source].better_on_little(method) for source in SOURCES]) for seen in evidence]),
        )


def _references(evidence: Sequence[Evidence], source: Source) -> tuple[float, float]:
    """NLL of the masked LM's energy, and of the distribution itself."""
    nll, true = (over_seeds([seen[source].masked_lm[fact] for seen in evidence]).value for fact in ("nll", "true"))
    return nll, true


def _panel(evidence: Sequence[Evidence], source: Source) -> Panel:
    series = [
        Series(name, SIZES, np.mean([seen[source].nll(method) for seen in evidence], axis=0).tolist())
        for method, name in METHODS.items()
    ]
    masked_lm, true = _references(evidence, source)
    series.append(Series("MLM of 100k", SIZES, [masked_lm] * len(SIZES)))
    return Panel(
        "sequences trained on", "held-out NLL, nats", tuple(series), SOURCES[source], log_x=True, reference=true
    )


STUDY = Study(
    title="A masked LM of much data, projected to an energy on little",
    part="Figure 6.1 and Section 6.2.2",
    paper=THESIS,
    method=(
        "On the distributions of Table 6.1 (palindromes and the HMM of low entropy) a masked LM is trained on 100,000 "
        "sequences. From its weights, sum_t KL(p_mlm(. | y without t) || p(. | y without t; E)) is minimised on "
        "smaller sets (KL), or that plus the pseudo-likelihood's loss (KL + PLL); PLL only starts from random "
        "weights. The dashed line is the distribution's own NLL. The thesis prints curves without numbers."
    ),
    sizes={"cpu": Size("masked-objectives-cpu"), "paper": Size("paper/masked-objectives")},
    workspace=EXPERIMENT,
    examine=_examine,
    conclude=_conclude,
)
