"""Is a text a sample of a language model? A linear score of what another LM's predictions say of its tokens.

    S(x) = 1/n sum_t w . phi_t

phi_t are MEASURES of the prediction of token t: log-probability, entropy, varentropy, log-rank and how far the rank
lies beyond 100. w is of a logistic regression of people's texts and samples of LMs (ours). A sample at temperature 1 is
hardly likelier than people's text, but it is as likely as the predictions lead to expect, and seldom far less:
Fast-DetectGPT's discrepancy is the sum of the first two (Bao et al. 2024), and `rank_tail` the last.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from lexergy.core.detection.wording import Wording
from lexergy.core.detection.zero_shot import TokenStatistics, rank_tail

SAMPLE = "sample"
MEASURES = (
    "log-probability",
    "entropy",
    "varentropy",
    "log-rank",
    "rank-tail",
)


def measures(tokens: TokenStatistics) -> Tensor:  # (L - 1,) each -> (L - 1, 5)
    """What an LM's prediction says of each token, in the order of MEASURES."""
    columns = (tokens.log_prob, -tokens.expected, tokens.variance, tokens.log_rank, rank_tail(tokens))
    return torch.stack(columns, -1)


@dataclass(frozen=True)
class SampleScore:
    """The score of a text as a mean of terms, from one pass of the LM that it was fitted to."""

    weights: tuple[float, ...]  # w, of MEASURES
    offset: float = 0.0
    common: ClassVar[frozenset[str]] = frozenset()  # no word counts

    def terms(self, tokens: TokenStatistics, wording: Wording | None = None) -> Tensor:  # (L - 1,) each -> (L - 1,)
        """Of the tokens but the first, which nothing predicts; how the text is worded says nothing."""
        weights = torch.tensor(self.weights, dtype=torch.double)
        return (measures(tokens) * weights).sum(-1) + self.offset
