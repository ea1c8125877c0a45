"""Table 6.1 of Goyal 2021: one energy trained by MLM, pseudo-likelihood and likelihood, on known distributions."""

from collections.abc import Mapping, Sequence

import numpy as np

from lexergy.core.estimation.findings import Finding, above, mean
from lexergy.report.figures.picture import Panel, Series
from lexergy.report.pages.study import Conclusion
from lexergy.report.table import Cell, Table
from lexergy.studies.masked.objectives import (
    EXPERIMENT,
    SHORT,
    THESIS,
    Dataset,
    Trainings,
    average,
    gap,
    gaps,
    over_seeds,
    train_all,
)
from lexergy.studies.study import Settings, Size, Study
from lexergy.tasks.masked.objectives import Experiment, ObjectiveName

LL: ObjectiveName = "likelihood"
PLL: ObjectiveName = "pseudo_likelihood"
MLM: ObjectiveName = "masked_conditionals"
OBJECTIVES = (LL, PLL, MLM)
SIZES = (1000, 10000)
# The objective whose model is meant, the number of it, and what the thesis prints
COLUMNS = ((LL, "true"), (LL, "nll"), (PLL, "nll"), (MLM, "nll"), (PLL, "pll"), (MLM, "mlm"))
NAMES = ("true NLL", "NLL of LL", "NLL of PLL", "NLL of MLM", "-PLL of PLL", "-MLM of MLM")
PRINTED = {
    Dataset("p", 1000): (5.32, 6.74, 7.01, 7.71, 5.74, 5.87),
    Dataset("p", 10000): (5.35, 6.21, 6.57, 7.23, 4.88, 5.28),
    Dataset("h", 1000): (4.97, 5.07, 5.16, 6.01, 4.58, 4.46),
    Dataset("h", 10000): (5.02, 5.03, 5.04, 5.94, 4.45, 4.49),
    Dataset("h+", 1000): (6.45, 6.51, 6.53, 7.07, 6.27, 6.23),
    Dataset("h+", 10000): (6.41, 6.42, 6.43, 6.88, 6.14, 6.13),
}


def _examine(experiment: Experiment, settings: Settings) -> Trainings:
    return train_all(experiment, list(PRINTED), OBJECTIVES)


def _conclude(evidence: Sequence[Trainings]) -> Conclusion:
    return Conclusion(
        tables=(nll_table(evidence, PRINTED), gap_table(evidence, list(PRINTED), ((MLM, PLL), (PLL, LL)))),
        panels=(_panel(evidence),),
        findings=_findings(evidence),
    )


def nll_table(evidence: Sequence[Trainings], printed: Mapping[Dataset, tuple[float | None, ...]]) -> Table:
    """The thesis's table with its numbers beside ours."""
    columns = ["data", *(name for column in NAMES for name in (column, f"{column}, thesis"))]
    rows = []
    for dataset, numbers in printed.items():
        row: list[Cell] = [dataset.label]
        for (objective, fact), number in zip(COLUMNS, numbers, strict=True):
            row += [average(evidence, dataset, objective, fact), number]
        rows.append(tuple(row))
    return Table("held-out numbers, nats per sequence", tuple(columns), rows)


def gap_table(evidence: Sequence[Trainings], datasets: Sequence[Dataset], pairs: Sequence[tuple[str, str]]) -> Table:
    """How far one objective's NLL lies above another's on each data set, and what that says of the ordering."""
    rows = []
    for dataset in datasets:
        for worse, better in pairs:
            finding = above("", "", gap(evidence, dataset, worse, better))
            name = f"{SHORT[worse]} - {SHORT[better]}"
            rows.append((dataset.label, name, *finding.estimate, str(finding.verdict)))
    return Table("ordering of the NLLs", ("data", "gap", "value", "low", "high", "is above 0"), rows)


def _findings(evidence: Sequence[Trainings]) -> tuple[Finding, ...]:
    def all_gaps(worse: str, better: str, size: int | None = None) -> list[np.ndarray]:
        chosen = [dataset for dataset in PRINTED if size in (None, dataset.size)]
        return [
            np.array([gaps([trainings], dataset, worse, better)[0] for dataset in chosen]) for trainings in evidence
        ]

    few, many = (all_gaps(PLL, LL, size) for size in SIZES)
    shrink = [small - large for small, large in zip(few, many, strict=True)]
    values = [
        np.array([trainings[dataset][MLM]["mlm"] - trainings[dataset][PLL]["pll"] for dataset in PRINTED])
        for trainings in evidence
    ]
    return (
        above(
            "MLM training makes a worse probabilistic model than the pseudo-likelihood: NLL(MLM) > NLL(PLL).",
            "NLL(MLM) - NLL(PLL), mean over data sets, nats",
            mean(all_gaps(MLM, PLL)),
        ),
        above(
            "The pseudo-likelihood makes a worse one than the likelihood: NLL(PLL) > NLL(LL).",
            "NLL(PLL) - NLL(LL), mean over data sets, nats",
            mean(all_gaps(PLL, LL)),
        ),
        above(
            "With more data the pseudo-likelihood comes close to the likelihood.",
            "NLL(PLL) - NLL(LL), at 1k above that at 10k, nats",
            mean(shrink),
        ),
        above(
            "This is so although both reach similar values of their own objectives: the NLLs differ by more.",
            "(NLL(MLM) - NLL(PLL)) - |MLM's own value - PLL's own value|, nats",
            mean([between - np.abs(own) for between, own in zip(all_gaps(MLM, PLL), values, strict=True)]),
        ),
    )


def _panel(evidence: Sequence[Trainings]) -> Panel:
    labels = [dataset.label for dataset in PRINTED]
    places = list(range(len(labels)))
    series = []
    for objective in OBJECTIVES:
        nlls = [over_seeds([trainings[dataset][objective]["nll"] for trainings in evidence]) for dataset in PRINTED]
        if len(evidence) == 1:
            series.append(Series(SHORT[objective], places, [nll.value for nll in nlls], style="points"))
        else:
            series.append(Series.of(SHORT[objective], places, nlls, "points"))
    true = [average(evidence, dataset, LL, "true") or np.nan for dataset in PRINTED]
    series.append(Series("true", places, true, style="points"))
    return Panel("data", "held-out NLL, nats", tuple(series), categories=tuple(labels))


STUDY = Study(
    title="One energy, trained by MLM, pseudo-likelihood and likelihood",
    part="Table 6.1 and Section 6.2.3",
    paper=THESIS,
    method=(
        "Sequences of 5 tokens over 5: palindromes with probability 0.8 (p), and hidden Markov models of 4 states, "
        "made so sharp that their entropies are 5.00 (h) and 6.43 nats (h+), as the thesis's ground truths are; it "
        "prints no parameters. Two LSTMs read the left and the right context of a token and a linear layer scores it; "
        "the raw energy is minus the sum of these scores. Weights are kept where the training's own loss is lowest on "
        "1,000 further sequences; numbers are means over 10,000 held-out sequences, the partition function by "
        "enumeration of all 3,125. For palindromes the thesis prints a true NLL of 5.32 and 5.35, where its own "
        "description gives 0.8 log(125 / 0.8) + 0.2 log(3000 / 0.2) = 5.96."
    ),
    sizes={"cpu": Size("masked-objectives-cpu"), "paper": Size("paper/masked-objectives")},
    workspace=EXPERIMENT,
    examine=_examine,
    conclude=_conclude,
)
