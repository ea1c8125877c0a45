"""Energies of a text set, and what they say of the energy function."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch

from lexergy.core.classification import ClassificationMetrics, classification_metrics
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
        rows, columns = self.energies.shape
        is_machine = (torch.arange(columns) > 0).expand(rows, -1).flatten()
        documents = [document for document in self.documents for _ in range(columns)]
        return classification_metrics(torch.from_numpy(self.energies).flatten(), is_machine, documents, seed=seed)

    def select(self, rows: np.ndarray) -> "Scores":  # (M,)
        """The windows at `rows`, in that order."""
        return Scores(self.energies[rows], tuple(self.documents[row] for row in rows.tolist()))

    def shifted(self, threshold: float, sign: float = 1.0) -> "Scores":
        """sign * (E - threshold): the same ranking (or its reverse), with another point of indifference."""
        return Scores(sign * (self.energies - threshold), self.documents)


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
