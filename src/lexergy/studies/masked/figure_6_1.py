"""Figure 6.1 of Goyal 2021: a masked LM of much data projected to an energy on little."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from lexergy.core.estimation.findings import Estimate, Finding, above, mean
from lexergy.report.figures.picture import Panel, Series
from lexergy.report.pages.study import Conclusion
from lexergy.report.table import Cell, Table
from lexergy.studies.masked.objectives import EXPERIMENT, THESIS, Facts, over_seeds
from lexergy.studies.study import Settings, Size, Study
from lexergy.tasks.masked.objectives import Experiment, ObjectiveName, Source

METHODS: dict[ObjectiveName, str] = {"pseudo_likelihood": "PLL only", "kl": "KL", "kl_pll": "KL + PLL"}
PROJECTIONS: tuple[ObjectiveName, ...] = ("kl", "kl_pll")


class Corpus(NamedTuple):
    """What a panel is about."""

    name: str
    much: int | None  # sequences that the masked LM is trained on; None: all that are reserved for it
    sizes: tuple[int, ...]


SYNTHETIC_SIZES = (100, 300, 1000, 3000, 10000)
CORPORA: dict[Source, Corpus] = {
    "p": Corpus("palindromes", 100_000, SYNTHETIC_SIZES),
    "h": Corpus("HMM", 100_000, SYNTHETIC_SIZES),
    "phoneme-short": Corpus("phonemes", None, (100, 1000, 3000)),
}
GROUPS: dict[str, tuple[Source, ...]] = {"Palindromes and HMM": ("p", "h"), "Phonemes": ("phoneme-short",)}
LITTLE = 1000
TEACHER = "MLM of much data"


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
    for source, corpus in CORPORA.items():
        teacher = experiment.trained(source, corpus.much, "masked_conditionals")
        trained = {
            method: {
                size: experiment.trained(source, size, method, teacher=teacher if method in PROJECTIONS else None).facts
                for size in corpus.sizes
            }
            for method in METHODS
        }
        curves[source] = Curves(teacher.facts, trained)
    return curves


def _conclude(evidence: Sequence[Evidence]) -> Conclusion:
    rows: list[tuple[Cell, ...]] = []
    for source, corpus in CORPORA.items():
        for place, size in enumerate(corpus.sizes):
            values = [over_seeds([seen[source].nll(method)[place] for seen in evidence]).value for method in METHODS]
            rows.append((corpus.name, size, *values, *_references(evidence, source)))
    return Conclusion(
        tables=(Table("held-out NLL, nats", ("data", "sequences", *METHODS.values(), TEACHER, "true"), rows),),
        panels=tuple(_panel(evidence, source) for source in CORPORA),
        findings=tuple(finding for group in GROUPS for finding in _findings(evidence, group)),
    )


def _findings(evidence: Sequence[Evidence], group: str) -> Iterator[Finding]:
    def mean_over(gaps: Callable[[Curves], np.ndarray]) -> Estimate:
        return mean([np.concatenate([gaps(seen[source]) for source in GROUPS[group]]) for seen in evidence])

    for method, name in METHODS.items():
        yield above(
            f"{group}: {name} makes a better model than the energy of the masked LM that was trained on much data.",
            f"NLL(MLM) - NLL({name}), mean over sizes, nats",
            mean_over(lambda curves, method=method: curves.better_than_masked_lm(method)),  # type: ignore[misc]
        )
    for method in PROJECTIONS:
        yield above(
            f"{group}: on little data {METHODS[method]} is better than the pseudo-likelihood from scratch.",
            f"NLL(PLL only) - NLL({METHODS[method]}), mean over the sizes below {LITTLE:,}, nats",
            mean_over(lambda curves, method=method: curves.better_on_little(method)),  # type: ignore[misc]
        )


def _references(evidence: Sequence[Evidence], source: Source) -> tuple[float, float | None]:
    """NLL of the masked LM's energy, and of the distribution itself, where it is known."""

    def over(fact: str) -> float:
        return over_seeds([seen[source].masked_lm[fact] for seen in evidence]).value

    return over("nll"), over("true") if "true" in evidence[0][source].masked_lm else None


def _panel(evidence: Sequence[Evidence], source: Source) -> Panel:
    name, _, sizes = CORPORA[source]
    series = [
        _series(label, sizes, [seen[source].nll(method) for seen in evidence]) for method, label in METHODS.items()
    ]
    masked_lm, true = _references(evidence, source)
    series.append(Series(TEACHER, sizes, [masked_lm] * len(sizes)))
    return Panel("sequences trained on", "held-out NLL, nats", tuple(series), name, log_x=True, reference=true)


def _series(label: str, sizes: Sequence[int], nlls: Sequence[np.ndarray]) -> Series:
    """Means over seeds, with their intervals where there are several."""
    if len(nlls) == 1:
        return Series(label, sizes, nlls[0].tolist())
    return Series.of(label, sizes, [over_seeds(values.tolist()) for values in np.stack(nlls, axis=1)])


STUDY = Study(
    title="A masked LM of much data, projected to an energy on little",
    part="Figure 6.1 and Section 6.2.2",
    paper=THESIS,
    method=(
        "On the distributions of Table 6.1 (palindromes and the HMM of low entropy) a masked LM is trained on 100,000 "
        "sequences. From its weights, sum_t KL(p_mlm(. | y without t) || p(. | y without t; E)) is minimised on "
        "smaller sets (KL), or that plus the pseudo-likelihood's loss (KL + PLL); PLL only starts from random "
        "weights. The dashed line is the distribution's own NLL. Phonemes: the entries of the CMU pronouncing "
        "dictionary of at most 4 phonemes (the thesis: 6), 24,337; a tenth of the different sequences is held out, "
        "3,000 entries are for the smaller sets and the masked LM learns from the others. All objectives but the "
        "masked LM's look at one random position of a sequence per step there. Partition functions are exact, one for "
        "each length, and the share of a length is that in all data that are not held out. The thesis prints curves "
        "without numbers."
    ),
    sizes={"cpu": Size("masked-objectives-cpu"), "paper": Size("paper/masked-objectives")},
    workspace=EXPERIMENT,
    examine=_examine,
    conclude=_conclude,
)
