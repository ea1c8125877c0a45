"""Objectives over sentences and the symbols written for them: what all of them share, and cross-entropy."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from lexergy.core.decoding import pick
from lexergy.core.random import uniforms
from lexergy.core.search_aware.scheduled_sampling import annealed
from lexergy.core.search_aware.self_normalisation import log_z_penalty
from lexergy.core.search_aware.step_decoder import written
from lexergy.models.loading.devices import device_of
from lexergy.models.seq2seq.decoder import BoundDecoder
from lexergy.models.seq2seq.model import Seq2SeqModel
from lexergy.models.seq2seq.pairs import SequencePairs
from lexergy.models.seq2seq.search import decode
from lexergy.recipes.search_aware import SearchRecipe
from lexergy.training.objectives.contrastive import evaluating
from lexergy.training.randomness import example_uniforms

ROWS_TOGETHER = 64  # of similar length: steps of Python cost more than padding
VALIDATION_SEED = 0


@dataclass(frozen=True)
class Validation:
    """Sentences to choose the best weights on: they are decoded by `search` and judged, best at 1, worst at 0."""

    pairs: SequencePairs
    search: SearchRecipe
    metric: str
    judge: Callable[[Sequence[Sequence[int]]], float]


class Draws(NamedTuple):
    """Uniform numbers of sentences: each depends on the seed, the sentence and what it is for, not on the batch."""

    seed: int
    sentences: list[int]

    def of(self, purpose: int, count: int) -> Tensor:  # (B, count) float64
        return uniforms(self.seed, self.sentences, step=purpose, first=0, count=count)


class Annealing:
    """Alpha from `first` to `last` in `steps`; constant without `last`."""

    def __init__(self, first: float, last: float | None, steps: int) -> None:
        self.first = first
        self.last = first if last is None else last
        self.steps = steps

    def at(self, step: int) -> float:
        return annealed(step, self.first, self.last, self.steps)


class SequenceObjective(ABC):
    """A loss that adds up over the symbols of a sentence: its mean over sentences, per symbol of a mean sentence.

    Sentences of similar length go through the model together. All random numbers of a sentence (dropout, samples) are
    its own, so that neither this nor the size of a batch changes a result.
    """

    normalised: bool | None = None  # the scores that the loss reads; None: as the model has them
    rows_together = ROWS_TOGETHER

    def __init__(self, train: SequencePairs, validation: Validation) -> None:
        self.train = train
        self.validation = validation
        self.symbols_per_sentence = float(train.lengths.double().mean())
        self.step = 0

    @abstractmethod
    def sentence_losses(self, decoder: BoundDecoder, gold: Tensor, draws: Draws) -> Tensor: ...  # (B, T) -> (B,)

    def settings(self) -> dict[str, float]:
        """What the schedules have come to, for the record of a training."""
        return {}

    def begin(self, step: int) -> None:
        self.step = step

    @property
    def num_examples(self) -> int:
        return len(self.train)

    @property
    def lengths(self) -> Tensor:  # (N,)
        return self.train.lengths

    def loss(self, model: Any, indices: Tensor, generator: torch.Generator) -> tuple[Tensor, dict[str, float]]:
        dropout = example_uniforms(generator, indices, model.num_dropped) if model.config.dropout else None
        losses = self._losses(model, self.train.select(indices), indices, generator, dropout)
        return losses.mean(), self.settings()

    def evaluate(self, model: Any) -> dict[str, float]:
        """`loss`, by which the best weights are chosen, is what the metric of decoding lacks of 1."""
        pairs, generator = self.validation.pairs, torch.Generator().manual_seed(VALIDATION_SEED)
        with evaluating(model):
            losses = self._losses(model, pairs, torch.arange(len(pairs)), generator, None)
            metric = self.validation.judge(decode(model, pairs.sources, self.validation.search))
            likelihood = gold_likelihood(model, pairs)
        return {
            "loss": 1 - metric,
            self.validation.metric: metric,
            "objective_loss": float(losses.mean()),
            **likelihood,
            **self.settings(),
        }

    def _losses(
        self,
        model: Seq2SeqModel,
        pairs: SequencePairs,
        indices: Tensor,
        generator: torch.Generator,
        dropout: Tensor | None,
    ) -> Tensor:  # (B,)
        seed = int(torch.randint(2**63 - 1, (), generator=generator))
        device = device_of(model)
        parts, order = [], pairs.lengths.argsort(stable=True)
        for rows in order.split(self.rows_together):
            few = pairs.select(rows).to(device)
            decoder = model.decoder(
                few.sources,
                max_symbols=few.lengths,
                normalised=self.normalised,
                uniforms=None if dropout is None else dropout[rows].to(device),
            )
            parts.append(self.sentence_losses(decoder, few.gold, Draws(seed, indices[rows].tolist())))
        return torch.cat(parts)[order.argsort()] / self.symbols_per_sentence


class CrossEntropy(SequenceObjective):
    """-sum_t log p(y*_t | y*_<t, x) + weight * sum_t (log Z_t)^2 (Eq. 3.1; 5.3.1, Goyal 2021).

    Z_t normalises the raw scores of step t. A positive `weight` draws it towards 1, so that raw scores are nearly
    log-probabilities: the self-normalised start of a globally normalised model.
    """

    normalised = False

    def __init__(self, train: SequencePairs, validation: Validation, self_normalisation: float = 0.0) -> None:
        super().__init__(train, validation)
        self.self_normalisation = self_normalisation

    def sentence_losses(self, decoder: BoundDecoder, gold: Tensor, draws: Draws) -> Tensor:
        scores = decoder.teacher_forced(gold)
        inside = written(decoder, gold)
        losses = -pick(scores.log_softmax(-1), gold.clamp_min(0))  # (B, T)
        loss = torch.where(inside, losses, 0).sum(-1)
        return loss + self.self_normalisation * log_z_penalty(scores, inside) if self.self_normalisation else loss


@torch.no_grad()
def gold_likelihood(model: Seq2SeqModel, pairs: SequencePairs) -> dict[str, float]:
    """Cross-entropy of gold symbols, in nats each, and mean and variance of log Z_t of raw scores along them."""
    log_probs, log_z = [], []
    for rows in pairs.lengths.argsort(stable=True).split(ROWS_TOGETHER):
        few = pairs.select(rows).to(device_of(model))
        decoder = model.decoder(few.sources, max_symbols=few.lengths, normalised=False)
        scores = decoder.teacher_forced(few.gold).double()
        inside = written(decoder, few.gold)
        log_z.append(scores.logsumexp(-1)[inside])
        log_probs.append(pick(scores, few.gold.clamp_min(0))[inside] - log_z[-1])
    constants = torch.cat(log_z)
    return {
        "cross_entropy": -float(torch.cat(log_probs).mean()),
        "log_z_mean": float(constants.mean()),
        "log_z_variance": float(constants.var(correction=0)),
    }
