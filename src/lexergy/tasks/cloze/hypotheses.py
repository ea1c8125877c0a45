"""An n-best list as tensors, and what a model says of its hypotheses."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from lexergy.core.rescoring import Comparison, ModelScores, chosen_statistics, matched_pairs
from lexergy.core.text_measures.text_metrics import Metric
from lexergy.data.lists.nbest import Utterance, some_of, speakers_of
from lexergy.models.scoring.scorer import TextScorer
from lexergy.progress import progress_bar
from lexergy.tasks.cloze.scoring import TextScores, score_texts

MOST_NAMED = 3


@dataclass(frozen=True)
class HypothesisList:
    """U utterances of at most N hypotheses; one that is not there has a first pass of -inf."""

    name: str
    utterances: Sequence[Utterance]
    metric: Metric
    first_pass: Tensor  # (U, N)
    statistics: Tensor  # (U, N, S), zero where there is no reference

    @classmethod
    def of(cls, name: str, utterances: Sequence[Utterance], metric: Metric, progress: bool) -> "HypothesisList":
        most = max(len(utterance.hypotheses) for utterance in utterances)
        first_pass = torch.full((len(utterances), most), -torch.inf, dtype=torch.double)
        num_statistics = metric.statistics([""], "a").shape[1]
        statistics = torch.zeros(len(utterances), most, num_statistics, dtype=torch.double)
        with progress_bar(f"{metric.name} of {name} hypotheses", len(utterances), progress) as bar:
            for row, utterance in enumerate(utterances):
                count = len(utterance.hypotheses)
                first_pass[row, :count] = torch.tensor([hypothesis.score for hypothesis in utterance.hypotheses])
                if utterance.reference is not None:
                    texts = [hypothesis.text for hypothesis in utterance.hypotheses]
                    statistics[row, :count] = metric.statistics(texts, utterance.reference)
                bar.advance(1)
        return cls(name, utterances, metric, first_pass, statistics)

    @property
    def present(self) -> Tensor:  # (U, N) bool
        return ~self.first_pass.isneginf()

    @property
    def speakers(self) -> list[str] | None:
        return speakers_of(self.utterances)

    def value(self, ranking: Tensor) -> float | None:  # (U, N)
        """The metric of what ranks highest; none where there is no reference."""
        value = float(self.metric.value(self.chosen(ranking).sum(0)))
        return value if value == value else None

    def chosen(self, ranking: Tensor) -> Tensor:  # (U, N) -> (U, S)
        return chosen_statistics(self.statistics, ranking.argmax(1))

    def compared(self, first: Tensor, second: Tensor, seed: int) -> Comparison | None:  # (U, N) each
        """What two rankings are worth, speaker by speaker where they are known; none without references."""
        chosen = self.chosen(first)
        if not chosen.any():
            return None
        groups = self.speakers or range(len(chosen))
        return matched_pairs(chosen, self.chosen(second), self.metric.value, groups, seed)

    def oracle(self, kept: Tensor) -> Tensor:  # (U, N)
        """Ranks the hypothesis with the fewest errors highest, of those that were kept."""
        return torch.where(kept, -self.statistics[..., 0], -torch.inf)

    def rows(self, count: int | None) -> list[int]:
        """At most so many utterances, at equal distances."""
        return some_of(list(range(len(self.utterances))), count)

    def of_rows(self, rows: Sequence[int]) -> "HypothesisList":
        utterances = [self.utterances[row] for row in rows]
        return HypothesisList(self.name, utterances, self.metric, self.first_pass[rows], self.statistics[rows])

    def warnings(self) -> list[str]:
        missing = [utterance.id for utterance in self.utterances if utterance.reference is None]
        if not missing:
            return []
        return [f"{_named(missing)} of the {self.name} list: no reference; re-ranked, but not counted in the metric"]


class ScoredList(NamedTuple):
    scores: ModelScores
    num_read: int
    seconds: float
    warnings: list[str]


def score_list(
    scorer: TextScorer, source: str, nbest: HypothesisList, kept: Tensor, *, frequencies: bool, progress: bool
) -> ScoredList:
    """The scores of the hypotheses that were kept, and their tokens' log-frequencies where they are wanted."""
    places = kept.nonzero()  # (M, 2)
    texts = [nbest.utterances[row].hypotheses[rank].text for row, rank in places.tolist()]
    scores = score_texts(scorer, source, texts, progress=progress)
    rows, ranks = places.unbind(1)
    log_scores = torch.full_like(nbest.first_pass, torch.nan)
    log_scores[rows, ranks] = torch.from_numpy(scores.log_scores)
    log_scores[rows, ranks] = log_scores[rows, ranks].masked_fill(torch.from_numpy(scores.num_tokens == 0), torch.nan)
    log_frequencies = torch.zeros_like(nbest.first_pass)
    if frequencies:
        log_frequencies[rows, ranks] = torch.tensor(list(map(sum, scorer.log_frequencies(texts))), dtype=torch.double)
    warnings = _odd_texts(nbest, places.tolist(), scores)
    return ScoredList(ModelScores(log_scores, log_frequencies), len(texts), scores.seconds, warnings)


def _odd_texts(nbest: HypothesisList, places: list[list[int]], scores: TextScores) -> list[str]:
    def names(odd: np.ndarray) -> list[str]:
        return [
            f"{nbest.utterances[row].id} (hypothesis {rank + 1})"
            for (row, rank), is_odd in zip(places, odd, strict=True)
            if is_odd
        ]

    warnings = []
    empty, long = names(scores.num_tokens == 0), names(scores.num_pieces > 1)
    if empty:
        warnings.append(f"{_named(empty)} of the {nbest.name} list: empty; takes its utterance's worst score")
    if long:
        warnings.append(f"{_named(long)} of the {nbest.name} list: longer than the model reads at once; read in pieces")
    return warnings


def _named(names: list[str]) -> str:
    more = len(names) - MOST_NAMED
    return ", ".join(names[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
