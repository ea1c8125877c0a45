"""Objectives over sentences and the symbols written for them: what all of them share, and cross-entropy."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from lexergy.core.decoding import pick
from lexergy.core.step_decoder import written
from lexergy.models.loading.devices import device_of
from lexergy.models.seq2seq.decoder import BoundDecoder
from lexergy.models.seq2seq.model import Seq2SeqModel
from lexergy.models.seq2seq.pairs import SequencePairs
from lexergy.models.seq2seq.search import decode
from lexergy.recipes.search_aware import SearchRecipe
from lexergy.training.objectives.contrastive import evaluating
from lexergy.training.randomness import example_uniforms

ROWS_TOGETHER = 16  # of similar length, so that little of a batch is padding
VALIDATION_SEED = 0


@dataclass(frozen=True)
class Validation:
    """Sentences to choose the best weights on: they are decoded by `search` and judged, best at 1, worst at 0."""

    pairs: SequencePairs
    search: SearchRecipe
    metric: str
    judge: Callable[[Sequence[Sequence[int]]], float]


class SequenceObjective(ABC):
    """A loss that adds up over the symbols of a sentence: its mean over sentences, per symbol of a mean sentence.

    Sentences of similar length go through the model together. All random numbers of a sentence (dropout, samples) are
    its own, so that neither this nor the size of a batch changes a result.
    """

    normalised: bool | None = None  # the scores that the loss reads; None: as the model has them

    def __init__(self, train: SequencePairs, validation: Validation) -> None:
        self.train = train
        self.validation = validation
        self.symbols_per_sentence = float(train.lengths.double().mean())
        self.step = 0

    @abstractmethod
    def sentence_losses(self, decoder: BoundDecoder, gold: Tensor, uniforms: Tensor) -> Tensor:
        """Gold symbols (B, T) and uniform numbers (B, num_choices(T)) -> (B,)."""

    def num_choices(self, decoder_steps: int, num_symbols: int) -> int:
        """How many uniform numbers decide what is sampled for a sentence."""
        return 0

    def settings(self) -> dict[str, float]:
        """What the schedules have come to, for the record of a training."""
        return {}

    def begin(self, step: int) -> None:
        self.step = step

    @property
    def num_examples(self) -> int:
        return len(self.train)

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
        choices = self.num_choices(pairs.gold.shape[1], model.config.num_symbols)
        uniforms = example_uniforms(generator, indices, choices) if choices else torch.empty(len(indices), 0)
        device = device_of(model)
        parts, order = [], pairs.lengths.argsort(stable=True)
        for rows in order.split(ROWS_TOGETHER):
            few = pairs.select(rows).to(device)
            decoder = model.decoder(
                few.sources,
                max_symbols=few.lengths,
                normalised=self.normalised,
                uniforms=None if dropout is None else dropout[rows].to(device),
            )
            parts.append(self.sentence_losses(decoder, few.gold, uniforms[rows].to(device)))
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

    def sentence_losses(self, decoder: BoundDecoder, gold: Tensor, uniforms: Tensor) -> Tensor:
        scores = decoder.teacher_forced(gold)
        log_z = scores.logsumexp(-1)  # (B, T)
        losses = log_z - pick(scores, gold.clamp_min(0)) + self.self_normalisation * log_z**2
        return torch.where(written(decoder, gold), losses, 0).sum(-1)


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
