"""Energies of a text set, and what they say of the energy function."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from lexergy.core.detection.classification import (
    NUM_RESAMPLES,
    WEIGHTS_AT_ONCE,
    ClassificationMetrics,
    classification_metrics,
    roc_auc,
)
from lexergy.core.estimation.bootstrap import group_counts
from lexergy.core.losses import first_places


@dataclass(frozen=True)
class Scores:
    """Energies of N people's windows and of the K machine-written twins of each."""

    energies: np.ndarray  # (N, 1 + K), people's first
    documents: tuple[str, ...]  # N

    @cached_property
    def accuracies(self) -> np.ndarray:
        """The balanced accuracy of each window (N,): half for people's, half for the share of twins found."""
        people, machine = self.energies[:, 0] <= 0, self.energies[:, 1:] > 0
        return (people + machine.mean(1)) / 2

    @cached_property
    def precisions(self) -> np.ndarray:
        """Whether people's text has the lowest energy of all (N,): P@1 of App. C, window by window."""
        energies = torch.from_numpy(self.energies)
        return first_places(energies[:, 0], energies[:, 1:]).numpy()

    def metrics(self, seed: int = 0) -> ClassificationMetrics:
        """Accuracy, ranking and calibration, with intervals over documents."""
        documents = [document for document in self.documents for _ in range(self.energies.shape[1])]
        return classification_metrics(torch.from_numpy(self.energies).flatten(), self._is_machine, documents, seed=seed)

    def aucs(self, weights: Tensor) -> Tensor:  # (R, N) -> (R,)
        """The area under the ROC curve with windows that weigh so much, for each row of weights."""
        ranks = torch.from_numpy(self.energies).flatten().unique(return_inverse=True)[1]
        return torch.cat(
            [
                roc_auc(ranks, self._is_machine, part.repeat_interleave(self.energies.shape[1], dim=1))
                for part in weights.split(max(1, WEIGHTS_AT_ONCE // self.energies.size))
            ]
        )

    @property
    def _is_machine(self) -> Tensor:  # (N (1 + K),) bool
        rows, columns = self.energies.shape
        return (torch.arange(columns) > 0).expand(rows, -1).flatten()

    def select(self, rows: np.ndarray) -> "Scores":  # (M,)
        """The windows at `rows`, in that order."""
        return Scores(self.energies[rows], tuple(self.documents[row] for row in rows.tolist()))

    def shifted(self, threshold: float, sign: float = 1.0) -> "Scores":
        """sign * (E - threshold): the same ranking (or its reverse), with another point of indifference."""
        return Scores(sign * (self.energies - threshold), self.documents)


class Measured(NamedTuple):
    value: float
    std_error: float


def combined_auc(scores: Sequence[Scores], coefficients: Sequence[float], seed: int = 0) -> Measured:
    """sum_i c_i AUC_i, which no threshold enters, with its standard error over documents.

    A document is drawn again in all sets alike, so that what is compared on the same documents is paired. NaN error
    for a single document.
    """
    counts, membership = group_counts([document for part in scores for document in part.documents], seed, NUM_RESAMPLES)
    once = torch.ones(1, counts.shape[1], dtype=counts.dtype)
    total, first = torch.zeros(1 + len(counts), dtype=counts.dtype), 0
    for part, coefficient in zip(scores, coefficients, strict=True):
        rows = membership[first : first + len(part.documents)]
        total += coefficient * part.aucs(torch.cat((once, counts))[:, rows])
        first += len(part.documents)
    resampled = total[1:][~total[1:].isnan()]  # those that have a document of each set
    several = counts.shape[1] > 1 and len(resampled) > 1
    return Measured(float(total[0]), float(resampled.std()) if several else math.nan)


def best_stump(scores: Scores) -> tuple[float, float]:
    """The threshold and sign by which a raw number tells best who wrote a text: of the highest balanced accuracy.

    For baselines that have no point of indifference of their own, chosen on validation texts.
    """
    values = np.unique(scores.energies)
    middles = (values[1:] + values[:-1]) / 2 if len(values) > 1 else values
    people, machine = np.sort(scores.energies[:, 0]), np.sort(scores.energies[:, 1:].ravel())
    spared = np.searchsorted(people, middles, side="right") / len(people)
    caught = 1 - np.searchsorted(machine, middles, side="right") / len(machine)
    accuracy = (spared + caught) / 2  # of "machine above the threshold"
    above, below = int(accuracy.argmax()), int(accuracy.argmin())
    if accuracy[above] >= 1 - accuracy[below]:
        return float(middles[above]), 1.0
    return float(middles[below]), -1.0
