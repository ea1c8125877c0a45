"""How far a writer's texts are from people's: numbers of one run, and over several with their intervals."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

from lexergy.core.estimation.bootstrap import group_numbers
from lexergy.core.estimation.findings import (
    Estimate,
    GroupStatistic,
    mean,
    mean_difference,
    mean_distance_difference,
    of_groups,
)
from lexergy.core.text_measures.divergence import binned, mauve_across_halves
from lexergy.core.text_measures.repetition import unique_share
from lexergy.core.text_measures.two_sample import paired_energy_distance
from lexergy.studies.residual.judges import Judges
from lexergy.studies.residual.workspace import Evidence, documents
from lexergy.studies.residual.writers import PEOPLE, WRITERS

ORDER = 3  # of the n-grams that findings are about
K_MEANS_SEEDS = range(5)  # a number of one k-means depends on where it started


@dataclass(frozen=True)
class Quality:
    """What one seed gave: its texts, what the judges made of them, and the files for the arena."""

    evidence: Evidence
    judges: Judges
    arena: Path

    @cached_property
    def writers(self) -> list[str]:
        return [writer for writer in WRITERS if f"{writer}_text" in self.evidence.table.column_names]

    def texts(self, writer: str) -> list[list[int]]:
        """In the LM's tokens, without the padding after an end."""
        lengths = self.evidence.array(f"{writer}_lengths")
        return [row[:length].tolist() for row, length in zip(self._tokens(writer), lengths, strict=True)]

    def _tokens(self, writer: str) -> np.ndarray:  # (N, C)
        return self.evidence.array(f"{writer}_tokens")

    def embeddings(self, writer: str) -> Tensor:  # (N, D)
        return torch.from_numpy(self.evidence.array(f"{writer}_embedding"))

    def per_character(self, writer: str) -> np.ndarray:  # (N,)
        """Nats that the judge needs for a character; a text without any needs none."""
        return -self.evidence.array(f"{writer}_judged") / self.evidence.array(f"{writer}_characters").clip(1)

    def per_token(self, writer: str) -> np.ndarray:  # (N,)
        """Nats that the run's LM needs for a token."""
        return -self.evidence.array(f"{writer}_log_prob") / self.evidence.array(f"{writer}_lengths")

    def repeated(self, writer: str, order: int = ORDER) -> np.ndarray:  # (N,)
        """The share of n-grams that a text has said before, in %."""
        return 100 * (1 - unique_share(self.texts(writer), order))

    def energy_distance(self, writer: str) -> GroupStatistic:
        """Of a writer's texts from people's, by the documents' weights."""
        pairs = (self.embeddings(PEOPLE), self.embeddings(writer))
        return paired_energy_distance(*pairs, self.evidence.documents).mean

    def mauve(self, writer: str) -> GroupStatistic:
        """The mean over several k-means, in whose bins documents are drawn again."""
        bins = [binned(self.embeddings(PEOPLE), self.embeddings(writer), seed) for seed in K_MEANS_SEEDS]
        membership = group_numbers(self.evidence.documents)  # (N,)

        def value(weights: Tensor) -> Tensor:  # (..., G) -> (...)
            of_texts = weights[..., membership]
            return torch.stack([sets.mauve(of_texts, of_texts) for sets in bins]).mean(0)

        return value

    def mauve_across(self, writer: str) -> float:
        """Between people's texts of half of the documents and a writer's of the others."""
        return mauve_across_halves(self.embeddings(PEOPLE), self.embeddings(writer), self.evidence.documents, seed=0)


Measure: TypeAlias = Callable[[Quality, str], np.ndarray]
"""A number of each text (N,) by a writer."""


class Measures:
    """Numbers of each writer over all seeds, and of the difference between two, each with its interval."""

    def __init__(self, seeds: Sequence[Quality]) -> None:
        self.seeds = seeds
        self.writers = seeds[0].writers
        self.groups = documents([seed.evidence for seed in seeds])
        written = [writer for writer in self.writers if writer != PEOPLE]
        self._distances = {writer: [seed.energy_distance(writer) for seed in seeds] for writer in written}
        self._mauves = {writer: [seed.mauve(writer) for seed in seeds] for writer in written}

    def energy_distance(self, writer: str, than: str | None = None) -> Estimate:
        """From people's texts; or by how much a writer is nearer than another."""
        if than is None:
            return of_groups(self._distances[writer], self.groups)
        return self._difference(self._distances[than], self._distances[writer])

    def mauve(self, writer: str, than: str | None = None) -> Estimate:
        """Against people's texts; or by how much a writer is above another."""
        if than is None:
            return of_groups(self._mauves[writer], self.groups)
        return self._difference(self._mauves[writer], self._mauves[than])

    def _difference(self, more: Sequence[GroupStatistic], less: Sequence[GroupStatistic]) -> Estimate:
        """Documents are drawn for both together."""
        return of_groups([_minus(*pair) for pair in zip(more, less, strict=True)], self.groups)

    def mean(self, measure: Measure, writer: str) -> Estimate:
        return mean([measure(seed, writer) for seed in self.seeds], groups=self.groups)

    def less(self, measure: Measure, writer: str, than: str) -> Estimate:
        """By how much a writer has less of something than another."""
        pair = ([measure(seed, name) for seed in self.seeds] for name in (than, writer))
        return mean_difference(*pair, groups=self.groups)

    def nearer(self, measure: Measure, writer: str, than: str) -> Estimate:
        """By how much a writer's mean is nearer to people's than another's."""
        from_people = ([measure(seed, name) - measure(seed, PEOPLE) for seed in self.seeds] for name in (than, writer))
        return mean_distance_difference(*from_people, groups=self.groups)


def _minus(first: GroupStatistic, second: GroupStatistic) -> GroupStatistic:
    return lambda weights: first(weights) - second(weights)
