"""What the studies of Section 6.2.3 share: held-out numbers of trainings, and the thesis's own beside them."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from lexergy.core.estimation.findings import Estimate, over_runs
from lexergy.recipes.masked import MaskedObjectivesRecipe
from lexergy.studies.study import Opener
from lexergy.tasks.masked.objectives import Experiment, ObjectiveName, Source, open_experiment

THESIS = "Goyal 2021 (thesis), chapter 6, Energy Based Neural Sequence Models"
EXPERIMENT = Opener(MaskedObjectivesRecipe, open_experiment, "data sets")
SHORT: dict[str, str] = {"likelihood": "LL", "pseudo_likelihood": "PLL", "masked_conditionals": "MLM"}


class Dataset(NamedTuple):
    """Where sequences come from, and how many are trained on (None: all)."""

    source: Source
    size: int | None

    @property
    def label(self) -> str:
        if self.size is None:
            return self.source
        marks = {"h+": ("h", "+")}.get(self.source, (self.source, ""))
        return f"{marks[0]}-{self.size // 1000}k{marks[1]}"


Facts = Mapping[str, float]
Trainings = Mapping[Dataset, Mapping[str, Facts]]  # of one seed: data set -> objective -> held-out numbers


def train_all(
    experiment: Experiment, datasets: Sequence[Dataset], objectives: Sequence[ObjectiveName]
) -> dict[Dataset, dict[str, Facts]]:
    """Every objective on every data set."""
    return {
        dataset: {objective: experiment.trained(*dataset, objective).facts for objective in objectives}
        for dataset in datasets
    }


def gaps(evidence: Sequence[Trainings], dataset: Dataset, worse: str, better: str) -> list[float]:
    """NLL of one objective's model above another's, a number per seed."""
    return [trainings[dataset][worse]["nll"] - trainings[dataset][better]["nll"] for trainings in evidence]


def gap(evidence: Sequence[Trainings], dataset: Dataset, worse: str, better: str) -> Estimate:
    """The mean of the gaps; one seed's interval is that over held-out sequences, where it was measured."""
    std_errors = [trainings[dataset][worse].get("gap_std_error", np.nan) for trainings in evidence]
    return over_runs(gaps(evidence, dataset, worse, better), std_errors)


def over_seeds(values: Sequence[float]) -> Estimate:
    """Mean and spread over seeds; one seed has no spread."""
    return over_runs(values, [np.nan] * len(values))


def average(evidence: Sequence[Trainings], dataset: Dataset, objective: str, fact: str) -> float | None:
    """The mean over seeds, where there is such a number."""
    facts = [trainings[dataset].get(objective, {}).get(fact) for trainings in evidence]
    values = [value for value in facts if value is not None]
    return float(np.mean(values)) if values else None
