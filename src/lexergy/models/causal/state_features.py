"""What an energy on the frozen LM's own states reads: pooled hidden states and likelihood statistics.

These exist already when a sample is drawn, so the sampler hands them on for next to nothing.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from lexergy.core.ends import inside
from lexergy.core.vocabulary import VocabularySummary, ranks
from lexergy.errors import LexergyError
from lexergy.recipes.sections.energy import Statistics

STATISTICS = (
    "mean log-probability",
    "deviation of log-probability",
    "lowest log-probability",
    "mean entropy",
    "deviation of entropy",
    "mean log-rank",
    "share of most likely tokens",
    "curvature",
)
MOMENTS = (
    "log-probability",
    "entropy",
    "log-rank",
    "most likely token",
    "among the ten most likely",
    "variance of log-probability",
    "squared log-probability",
    "squared entropy",
    "log-probability times entropy",
    "squared log-rank",
)
_NAMES: dict[str, tuple[str, ...]] = {"summary": STATISTICS, "moments": MOMENTS}


@dataclass(frozen=True)
class StateFeatures:
    """Hidden states of these layers, mean-pooled over the continuation, and the likelihood statistics.

    Layers count as in `hidden_states`: 0 is the embeddings, `num_layers` the last. Without layers, only the
    statistics are left: the `summary` of a continuation (STATISTICS), or `moments` (MOMENTS), which are means over
    tokens as the states are, so that a linear energy of them is a mean over tokens too.
    """

    layers: tuple[int, ...]
    statistics: Statistics = "summary"

    @property
    def num_statistics(self) -> int:
        return len(_NAMES[self.statistics])

    def size(self, hidden_size: int) -> int:
        return len(self.layers) * hidden_size + self.num_statistics

    @property
    def key(self) -> dict[str, Any]:
        """What names features in stored results: the statistics are told where they are not the summary."""
        layers = {"layers": list(self.layers)}
        return layers if self.statistics == "summary" else {**layers, "statistics": self.statistics}

    def check(self, last_layer: int) -> None:
        wrong = [layer for layer in self.layers if not 0 <= layer <= last_layer]
        if wrong:
            raise LexergyError(
                f"`layers` is {list(self.layers)}; expected some of 0 .. {last_layer}, the last layer of the LM "
                "whose states are of the model's width."
            )

    def pick(self, features: Tensor, wider: "StateFeatures") -> Tensor:
        """These among features that were computed for more layers: (..., F of `wider`) -> (..., F)."""
        if self == wider:
            return features
        states, statistics = features[..., : -self.num_statistics], features[..., -self.num_statistics :]
        places = torch.tensor([wider.layers.index(layer) for layer in self.layers], dtype=torch.long)
        by_layer = states.unflatten(-1, (len(wider.layers), -1))  # (..., layers, D)
        own = by_layer.index_select(-2, places.to(features.device)).flatten(-2)
        return torch.cat((own, statistics), -1)


def pick_features(wanted: StateFeatures | None, features: Tensor | None, wider: StateFeatures | None) -> Tensor | None:
    """What one reader wants of the features handed on for several; None where there are none, or it reads none."""
    return None if wanted is None or features is None or wider is None else wanted.pick(features, wider)


def union(wanted: Iterable[StateFeatures | None]) -> StateFeatures | None:
    """What the sampler should hand on for all of these, layers in ascending order; None when nothing is wanted.

    When all are alike, their layers stay as they are written.
    """
    given = [features for features in wanted if features is not None]
    kinds = {features.statistics for features in given}
    if len(kinds) > 1:
        raise LexergyError(
            f"energies read different statistics of the LM ({', '.join(sorted(kinds))}); expected one kind; "
            "score them one after the other."
        )
    if len(set(given)) <= 1:
        return next(iter(given), None)
    return StateFeatures(tuple(sorted({layer for features in given for layer in features.layers})), *kinds)


def token_statistics(logits: Tensor, tokens: Tensor, summary: VocabularySummary) -> Tensor:
    """Of each token under its next-token distribution: log-probability, entropy, variance of log p, log-rank.

    logits (N, V) with their summary, tokens (N,) -> (N, 4).
    """
    log_total, entropy, variance = summary.moments()
    log_prob = logits.gather(-1, tokens.unsqueeze(-1)).squeeze(-1).double() - log_total
    log_rank = ranks(logits, tokens, summary.maximum).double().log1p()
    return torch.stack((log_prob, entropy, variance, log_rank), -1).float()


def token_moments(statistics: Tensor) -> Tensor:
    """The MOMENTS of each token: (..., 4) -> (..., 10)."""
    log_prob, entropy, variance, log_rank = statistics.unbind(-1)
    columns = (
        log_prob,
        entropy,
        log_rank,
        (log_rank == 0).to(log_rank.dtype),
        (log_rank < math.log(10.5)).to(log_rank.dtype),
        variance,
        log_prob**2,
        entropy**2,
        log_prob * entropy,
        log_rank**2,
    )
    return torch.stack(columns, -1)


def pool_statistics(statistics: Tensor, lengths: Tensor, kind: Statistics = "summary") -> Tensor:
    """STATISTICS or MOMENTS of continuations from their tokens' (R, C, 4), of which the first `lengths` (R,) count."""
    counted = inside(lengths, statistics.shape[1])  # (R, C)
    count = lengths.to(statistics.dtype)
    if kind == "moments":
        return (token_moments(statistics) * counted.unsqueeze(-1)).sum(1) / count.unsqueeze(-1)
    log_prob, entropy, variance, log_rank = statistics.masked_fill(~counted.unsqueeze(-1), 0).unbind(-1)

    def mean(values: Tensor) -> Tensor:
        return values.sum(-1) / count

    def deviation(values: Tensor) -> Tensor:
        return mean(((values - mean(values).unsqueeze(-1)) * counted) ** 2).sqrt()

    # Fast-DetectGPT (Bao et al. 2024): how far the text's log-probability lies from its expectation.
    curvature = (log_prob + entropy).sum(-1) / (variance.sum(-1) + 1e-6).sqrt()
    columns = (
        mean(log_prob),
        deviation(log_prob),
        log_prob.amin(-1),
        mean(entropy),
        deviation(entropy),
        mean(log_rank),
        mean(((log_rank == 0) & counted).to(statistics.dtype)),
        curvature,
    )
    return torch.stack(columns, -1)
