"""Does a text read like an assistant's? What an LM's predictions say of it, which words it uses, and how it is written.

    E(x) = max(floor, 1/3 sum_j (s_j(x) - mean_j) / deviation_j) + share (W(x) + H(x))

s_j are likelihood, `rank_tail` and minus the varentropy, in deviations of people's texts. A text that is much harder to
predict than people's is no more a person's for it, since some assistants write such texts: hence the floor. W says how
many of the words that assistants like stand in the text, and how few of those that people like:

    W(x) = [sum_i w_i (b_i - pi_i)] / sqrt(sum_i w_i^2 pi_i (1 - pi_i)),   pi_i = 1 - (1 - f_i)^n,

b_i = 1 if token i of a vocabulary is among the n tokens of x, else 0. The w_i are of a logistic regression, f_i is how
often people write token i. So pi_i is what is to be expected of a person's text of that length, and W has mean 0 and
deviation about 1 for people, however long the text is (ours; presence rather than counts as in Pang et al. 2002).

H is a weighed sum of habits (`data.detection.habits`: how long and how even sentences are, how many different words,
articles, commas there are), in deviations of people's texts.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from lexergy.core.detection.zero_shot import TokenStatistics, likelihood, rank_tail

ASSISTANT = "assistant"
MEASURES = ("likelihood", "rank-tail", "varentropy")
_LEAST = 1e-9


def measures(tokens: TokenStatistics) -> Tensor:  # (L - 1, 3)
    """What an LM's predictions say of each token, in the order of MEASURES, the higher the more a machine's."""
    return torch.stack((likelihood(tokens), rank_tail(tokens), -tokens.variance), -1)


@dataclass(frozen=True)
class WordWeights:
    """V tokens of a vocabulary: what each speaks for, and the share of people's tokens that it is."""

    tokens: tuple[int, ...]
    weights: tuple[float, ...]  # w, above 0 where assistants use it more often
    rates: tuple[float, ...]  # f

    def terms(self, ids: Tensor) -> Tensor:  # (n,) -> (n,)
        """Terms whose mean is W: each token counts where it comes first, what is expected is shared out evenly."""
        weights, rates = (torch.tensor(own, dtype=torch.double) for own in (self.weights, self.rates))
        expected = 1 - (1 - rates) ** len(ids)  # (V,), pi
        spread = (weights.square() * expected * (1 - expected)).sum().sqrt().clamp_min(_LEAST)
        own = torch.tensor([self._weight_of.get(token, 0.0) for token in ids.tolist()], dtype=torch.double)
        return (len(ids) * own * is_first(ids) - (weights * expected).sum()) / spread

    @cached_property
    def _weight_of(self) -> dict[int, float]:
        return dict(zip(self.tokens, self.weights, strict=True))


def is_first(ids: Tensor) -> Tensor:  # (n,) -> (n,) bool
    """Whether a token has not been there before."""
    places = {token: place for place, token in reversed(list(enumerate(ids.tolist())))}  # the first of each
    first = torch.zeros(len(ids), dtype=torch.bool)
    first[list(places.values())] = True
    return first


@dataclass(frozen=True)
class HabitWeights:
    """What each habit speaks for, and mean and deviation of their sum over people's texts."""

    weights: tuple[float, ...]
    mean: float
    deviation: float

    def score(self, habits: Sequence[float]) -> float:
        """H."""
        total = sum(weight * own for weight, own in zip(self.weights, habits, strict=True))
        return (total - self.mean) / self.deviation


@dataclass(frozen=True)
class AssistantScore:
    """The score of a text as a mean of terms, from its tokens and one pass of the LM that it was fitted to."""

    means: tuple[float, ...]  # of MEASURES over people's texts
    deviations: tuple[float, ...]
    words: WordWeights
    share: float  # of W and H
    floor: float = -math.inf  # of what the LM says
    habits: HabitWeights | None = None

    def terms(
        self, ids: Tensor, tokens: TokenStatistics, habits: Sequence[float] = ()
    ) -> Tensor:  # (L,), (L - 1,) each -> (L - 1,)
        """Of the tokens but the first, which nothing predicts; the habits are those of the text."""
        means, deviations = (torch.tensor(own, dtype=torch.double) for own in (self.means, self.deviations))
        by_lm = ((measures(tokens) - means) / deviations).mean(-1)  # (L - 1,)
        by_lm = by_lm + (self.floor - by_lm.mean()).clamp_min(0)  # shared out evenly
        by_habits = 0.0 if self.habits is None else self.habits.score(habits)
        return by_lm + self.share * (self.words.terms(ids[1:]) + by_habits)
