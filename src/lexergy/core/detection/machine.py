"""Did a machine write it? An assistant, or a language model whose sample it is: a mixture of the two against people.

    E(x) = log sum_k pi_k p_k(x) / p(x) = log sum_k pi_k exp(L_k(x)),   k: assistant, sample

L_k is the log-likelihood ratio of a kind of machine to people, from the kind's own score by a logistic regression that
knows the length of the text (`calibration`). Where one kind speaks, the other need not agree: an assistant's text that
no LM would have sampled has the energy of the first, and a sample without an assistant's words that of the second. A
sum or a mean of the two would let each silence the other.

With r_k = pi_k exp(L_k) / sum_j pi_j exp(L_j), how likely each kind is where a machine wrote the text,

    E = sum_k r_k (L_k + log pi_k - log r_k),   dE / dL_k = r_k,

so that token t counts sum_k r_k e_kt, e_kt its terms of L_k, and the rest is shared out evenly.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from lexergy.core.detection.assistant import AssistantScore
from lexergy.core.detection.calibration import Calibration
from lexergy.core.detection.sample import SampleScore
from lexergy.core.detection.wording import Wording
from lexergy.core.detection.zero_shot import TokenStatistics

MACHINE = "machine"
KINDS = ("assistant", "sample")


@dataclass(frozen=True)
class MachineScore:
    """The energy of a text as a mean of terms, from its tokens and one pass of the LM that it was fitted to."""

    assistant: AssistantScore
    sample: SampleScore
    ratios: tuple[Calibration, Calibration]  # L of each kind, in the order of KINDS
    shares: tuple[float, float]  # pi

    def terms(self, tokens: TokenStatistics, wording: Wording) -> Tensor:  # (L - 1,) each -> (L - 1,)
        """Of the tokens but the first, which nothing predicts; places of the wording are among these."""
        scores = [score.terms(tokens, wording) for score in (self.assistant, self.sample)]
        length = torch.tensor(len(tokens.log_prob) + 1)
        ratios = [ratio.log_odds(own, length) for ratio, own in zip(self.ratios, scores, strict=True)]
        return mixed(torch.stack(ratios), self.shares)

    @property
    def common(self) -> frozenset[str]:
        """The words that a wording has as they are."""
        return self.assistant.common


def mixed(terms: Tensor, shares: Sequence[float]) -> Tensor:  # (K, n), K -> (n,)
    """Terms whose mean is log sum_k pi_k exp(L_k), from terms whose means are the L_k."""
    joint = torch.tensor(shares, dtype=torch.double).log() + terms.mean(1)  # (K,)
    own = (joint.softmax(0).unsqueeze(1) * terms).sum(0)  # (n,)
    return own + (joint.logsumexp(0) - own.mean())
