"""Does a text read like an assistant's? What an LM's predictions say of it, and how it is worded.

    E(x) = max(floor, 1/3 sum_j (s_j(x) - mean_j) / deviation_j) + share S(x)

s_j are likelihood, `rank_tail` and minus the varentropy, in deviations of people's texts. A text that is much harder to
predict than people's is no more a person's for it, since some assistants write such texts: hence the floor. S says what
phrases and habits speak for (`wording`), in deviations of people's texts, too.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from lexergy.core.detection.wording import Wording, WordingWeights
from lexergy.core.detection.zero_shot import TokenStatistics, likelihood, rank_tail

ASSISTANT = "assistant"
MEASURES = ("likelihood", "rank-tail", "varentropy")


def measures(tokens: TokenStatistics) -> Tensor:  # (L - 1, 3)
    """What an LM's predictions say of each token, in the order of MEASURES, the higher the more a machine's."""
    return torch.stack((likelihood(tokens), rank_tail(tokens), -tokens.variance), -1)


@dataclass(frozen=True)
class AssistantScore:
    """The score of a text as a mean of terms, from its wording and one pass of the LM that it was fitted to."""

    means: tuple[float, ...]  # of MEASURES over people's texts
    deviations: tuple[float, ...]
    wording: WordingWeights
    share: float  # of S
    floor: float = -math.inf  # of what the LM says

    def terms(self, tokens: TokenStatistics, wording: Wording) -> Tensor:  # (L - 1,) each -> (L - 1,)
        """Of the tokens but the first, which nothing predicts; places of the wording are among these."""
        means, deviations = (torch.tensor(own, dtype=torch.double) for own in (self.means, self.deviations))
        by_lm = ((measures(tokens) - means) / deviations).mean(-1)  # (L - 1,)
        by_lm = by_lm + (self.floor - by_lm.mean()).clamp_min(0)  # shared out evenly
        return by_lm + self.share * self.wording.terms(wording, len(by_lm))

    @property
    def common(self) -> frozenset[str]:
        """The words that a wording has as they are."""
        return self.wording.common
