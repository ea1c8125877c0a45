"""Scheduled sampling: a decoder that learns to go on from its own choices (3.3, Goyal 2021)."""

import math
from collections.abc import Callable

from torch import Tensor

from lexergy.core.search_aware.scheduled_sampling import exponential, inverse_sigmoid, linear, scheduled_log_scores
from lexergy.models.seq2seq.decoder import BoundDecoder
from lexergy.models.seq2seq.pairs import SequencePairs
from lexergy.training.objectives.search_aware import Annealing, Draws, SequenceObjective, Validation

MIXING: dict[str, Callable[[int, float], float]] = {
    "inverse-sigmoid": inverse_sigmoid,
    "linear": lambda step, steps: linear(step, 1 / steps),
    "exponential": lambda step, steps: exponential(step, math.exp(-1 / steps)),
}
"""The probability of gold at a step. The second number is in steps too: the k of the inverse sigmoid, the step at which
the linear schedule reaches 0, the steps in which the exponential one falls by e."""


class ScheduledSampling(SequenceObjective):
    """-sum_t log p(y*_t | what was written before), which is gold or the decoder's own choice (Bengio et al. 2015).

    The choice is the best symbol or, `sampled`, a draw; hard without `alpha`, otherwise the mixture of embeddings of
    the soft argmax or of the Gumbel softmax.
    """

    normalised = True

    def __init__(
        self,
        train: SequencePairs,
        validation: Validation,
        *,
        mixing: str,
        mixing_steps: float,
        alpha: Annealing | None,
        sampled: bool,
    ) -> None:
        super().__init__(train, validation)
        self.mixing = MIXING[mixing]
        self.mixing_steps = mixing_steps
        self.alpha = alpha
        self.sampled = sampled

    def settings(self) -> dict[str, float]:
        alpha = {} if self.alpha is None else {"alpha": self.alpha.at(self.step)}
        return {"mixing": self.mixing(self.step, self.mixing_steps), **alpha}

    def sentence_losses(self, decoder: BoundDecoder, gold: Tensor, draws: Draws) -> Tensor:
        num_symbols = len(decoder.embeddings)

        def noise(position: int) -> Tensor:  # (B, V)
            return draws.of(1 + position, num_symbols).to(gold.device)

        log_scores = scheduled_log_scores(
            decoder,
            gold,
            self.mixing(self.step, self.mixing_steps),
            draws.of(0, gold.shape[1]).to(gold.device),
            alpha=math.inf if self.alpha is None else self.alpha.at(self.step),
            noise=noise if self.sampled else None,
        )
        return -log_scores.sum(-1)
