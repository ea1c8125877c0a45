"""How a text is worded: which phrases it has and how it is written, and for whom that speaks.

    S(x) = (sum_i w_i x_i + sum_k v_k h_k - mean) / deviation,   x = u / |u|,   u_i = (1 + log c_i) d_i if c_i > 0

c_i says how often phrase i stands in the text and d_i = 1 + log((1 + N) / (1 + N_i)) in how few of N texts it stands
(Salton and Buckley 1988); h are habits: how long and how even sentences are, how many commas there are. w and v are of
one logistic regression, mean and deviation of people's texts.
"""

import math
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor


class Wording(NamedTuple):
    """Of a text of n tokens."""

    phrases: tuple[str, ...]  # again as often as they stand there
    places: tuple[int, ...]  # the token in which each ends, 0 .. n - 1
    habits: tuple[float, ...]


@dataclass(frozen=True)
class WordingWeights:
    """What each phrase and each habit speaks for: above 0 for a machine."""

    phrases: tuple[str, ...]
    weights: tuple[float, ...]  # w
    rarities: tuple[float, ...]  # d
    habits: tuple[float, ...]  # v
    mean: float = 0.0
    deviation: float = 1.0

    def terms(self, wording: Wording, length: int) -> Tensor:  # -> (n,)
        """Terms of n tokens whose mean is S: a phrase counts where it ends, all else is shared out evenly."""
        counts = Counter(phrase for phrase in wording.phrases if phrase in self._numbers)
        own = {phrase: (1 + math.log(count)) * self._numbers[phrase][1] for phrase, count in counts.items()}  # u
        norm = math.sqrt(sum(value**2 for value in own.values())) or 1.0
        each = {phrase: self._numbers[phrase][0] * value / norm / counts[phrase] for phrase, value in own.items()}
        found = [0.0] * length
        for phrase, place in zip(wording.phrases, wording.places, strict=True):
            found[place] += each.get(phrase, 0.0)
        by_habits = sum(weight * habit for weight, habit in zip(self.habits, wording.habits, strict=True))
        return (length * torch.tensor(found, dtype=torch.double) + by_habits - self.mean) / self.deviation

    @cached_property
    def common(self) -> frozenset[str]:
        """The words among the phrases, which stand for themselves; others are known by their kind."""
        return frozenset(phrase for phrase in self.phrases if phrase[0].islower() and "_" not in phrase)

    @cached_property
    def _numbers(self) -> dict[str, tuple[float, float]]:
        """w and d of each phrase."""
        return dict(zip(self.phrases, zip(self.weights, self.rarities, strict=True), strict=True))
