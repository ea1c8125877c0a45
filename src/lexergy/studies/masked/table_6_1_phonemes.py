"""Table 6.1's last row: English phoneme sequences, the partition function summed over 3.6 billion of them."""

import math
from collections.abc import Sequence

from torch import Tensor

from lexergy.core.estimation.findings import above, std_error
from lexergy.report.figures.picture import Panel, Series
from lexergy.report.pages.study import Conclusion
from lexergy.studies.masked.objectives import EXPERIMENT, THESIS, Dataset, Facts, Trainings, gap, over_seeds
from lexergy.studies.masked.table_6_1 import MLM, PLL, gap_table, nll_table
from lexergy.studies.study import Settings, Size, Study
from lexergy.tasks.masked.objectives import Experiment

PRINTED: dict[Dataset, tuple[float | None, ...]] = {
    Dataset("phoneme", None): (None, None, 14.58, 18.20, 13.31, 13.12),
    Dataset("phoneme-disjoint", None): (None,) * 6,
}


def _examine(experiment: Experiment, settings: Settings) -> Trainings:
    """The trainings, and beside the MLM's NLL how sure its distance from the PLL's is."""
    trainings: dict[Dataset, dict[str, Facts]] = {}
    for dataset in PRINTED:
        pll, mlm = (experiment.trained(*dataset, objective) for objective in (PLL, MLM))
        (pll_energies, lengths), (mlm_energies, _) = (experiment.energies(*dataset, stage) for stage in (pll, mlm))
        sure = {"gap_std_error": std_error_within(mlm_energies - pll_energies, lengths)}
        trainings[dataset] = {PLL: pll.facts, MLM: {**mlm.facts, **sure}}
    return trainings


def std_error_within(values: Tensor, lengths: Tensor) -> float:  # (K,), (K,)
    """Of the mean, with as many sequences of each length as there are: Z_n, one for each length, drops out."""
    parts = [values[lengths == length].numpy() for length in lengths.unique()]
    shares = [len(part) / len(values) for part in parts]
    return math.hypot(*(share * std_error(part) for share, part in zip(shares, parts, strict=True)))


def _conclude(evidence: Sequence[Trainings]) -> Conclusion:
    labels = tuple(dataset.label for dataset in PRINTED)
    series = tuple(
        Series(
            name,
            range(len(PRINTED)),
            [over_seeds([trainings[dataset][objective][fact] for trainings in evidence]).value for dataset in PRINTED],
            style="points",
        )
        for name, objective, fact in (
            ("PLL", PLL, "nll"),
            ("MLM", MLM, "nll"),
            ("PLL, one Z for all lengths", PLL, "nll_one_z"),
            ("MLM, one Z for all lengths", MLM, "nll_one_z"),
        )
    )
    return Conclusion(
        tables=(nll_table(evidence, PRINTED), gap_table(evidence, list(PRINTED), ((MLM, PLL),))),
        panels=(Panel("data", "held-out NLL, nats", series, categories=labels),),
        findings=tuple(
            above(
                f"On phonemes ({dataset.label}) MLM training makes a worse model than the pseudo-likelihood.",
                "NLL(MLM) - NLL(PLL), nats",
                gap(evidence, dataset, MLM, PLL),
            )
            for dataset in PRINTED
        ),
    )


STUDY = Study(
    title="Phoneme sequences: MLM and pseudo-likelihood",
    part="Table 6.1, last row",
    paper=THESIS,
    method=(
        "All entries of the CMU pronouncing dictionary (0.7b) of at most 6 phonemes, stress removed: 77,653 sequences "
        "over 39 phonemes. `phoneme` holds out a tenth of the entries, as the thesis does, so that homophones stand on "
        "both sides; `phoneme-disjoint` holds out a tenth of the different sequences with all their entries. Neither "
        "objective says how likely a length is, so that p(y) = p(n) exp(-E(y)) / Z_n with the training data's share of "
        "lengths; the points `one Z for all lengths` leave them to the energy. The partition functions are exact."
    ),
    sizes={"cpu": Size("masked-objectives-cpu"), "paper": Size("paper/masked-objectives")},
    workspace=EXPERIMENT._replace(resampled="held-out sequences of each length"),
    examine=_examine,
    conclude=_conclude,
)
