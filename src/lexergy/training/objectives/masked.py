"""Objectives on the raw energy of a `MaskedLSTM`: masked conditionals, true pseudo-likelihood, likelihood, projection.

Each is a loss per sequence in nats (Section 6.2.2, Goyal 2021). Sequences of one training may differ in length; they
are padded with -1.
"""

from collections.abc import Callable
from typing import Any, TypeAlias

import torch
import torch.nn.functional as functional
from torch import Tensor

from lexergy.core.enumeration import sequence_numbers
from lexergy.models.architectures.masked_lstm import MaskedLSTM, by_length
from lexergy.models.loading.devices import device_of
from lexergy.training.objectives.contrastive import evaluating
from lexergy.training.randomness import example_uniforms

EVALUATION_SEQUENCES = 1024

SequenceLoss: TypeAlias = Callable[[MaskedLSTM, Tensor], Tensor]
"""Sequences of one length (B, n) -> their losses (B,)."""

PositionLoss: TypeAlias = Callable[[Tensor, Tensor, Tensor], Tensor]
"""Sequences (b, n), a position of each (b,), log p(. | y_\\t; E) there (b, V) -> losses (b,)."""


def masked_conditionals(model: MaskedLSTM, tokens: Tensor) -> Tensor:  # (B, n) -> (B,)
    """-sum_t log p_mlm(y_t | y_\\t): each position masked in turn, which is what MLM training does on average."""
    return -_chosen(model.masked_logits(tokens).log_softmax(-1), tokens)


def pseudo_likelihood(model: MaskedLSTM, tokens: Tensor) -> Tensor:  # (B, n) -> (B,)
    """-sum_t log p(y_t | y_\\t; E): the true conditionals of the energy, by enumeration of the vocabulary."""
    return -_chosen(true_conditionals(model, tokens), tokens)


def likelihood(model: MaskedLSTM, tokens: Tensor) -> Tensor:  # (B, n) -> (B,)
    """-log p(y) = E(y) + log Z, by enumeration of all sequences of y's length."""
    energies = model.energy_table(tokens.shape[1])
    return energies[sequence_numbers(tokens, model.vocab_size)] + torch.logsumexp(-energies, 0)


def projection(teacher: MaskedLSTM, *, with_likelihood: bool = False) -> SequenceLoss:
    """sum_t KL(p_mlm(. | y_\\t) || p(. | y_\\t; E)): a trained masked LM's conditionals become those of an energy.

    With `with_likelihood` the loss of the pseudo-likelihood is added (KL + PLL).
    """

    def loss(model: MaskedLSTM, tokens: Tensor) -> Tensor:
        with torch.no_grad():
            wanted = teacher.masked_logits(tokens).log_softmax(-1)  # (B, n, V)
        log_probs = true_conditionals(model, tokens)
        divergence = functional.kl_div(log_probs, wanted, reduction="none", log_target=True).sum(dim=(1, 2))
        return divergence - _chosen(log_probs, tokens) if with_likelihood else divergence

    return loss


def true_conditionals(model: MaskedLSTM, tokens: Tensor) -> Tensor:  # (B, n) -> (B, n, V)
    """log p(y_t = w | y_\\t; E) for every position and token."""
    return (-model.replacement_energies(tokens)).log_softmax(-1)


class SequenceObjective:
    """The mean of a loss over sequences."""

    def __init__(self, loss: SequenceLoss, train: Tensor, validation: Tensor) -> None:  # (N, L), (M, L)
        self.sequence_loss = loss
        self.train = train
        self.validation = validation

    @property
    def num_examples(self) -> int:
        return len(self.train)

    def loss(self, model: Any, indices: Tensor, generator: torch.Generator) -> tuple[Tensor, dict[str, float]]:
        tokens = self.train[indices].to(device_of(model))
        return by_length(lambda rows: self.sequence_loss(model, rows), tokens).mean(), {}

    def evaluate(self, model: Any) -> dict[str, float]:
        return {"loss": float(sequence_losses(self.sequence_loss, model, self.validation).mean())}


class SampledPositions(SequenceObjective):
    """A sum over positions with a vocabulary that is dear to enumerate: a step looks at one position per sequence.

    n times its loss has the same mean as the sum over n positions. Validation looks at all.
    """

    def __init__(self, loss: SequenceLoss, at: PositionLoss, train: Tensor, validation: Tensor) -> None:
        super().__init__(loss, train, validation)
        self.position_loss = at

    def loss(self, model: Any, indices: Tensor, generator: torch.Generator) -> tuple[Tensor, dict[str, float]]:
        uniforms = example_uniforms(generator, indices, 1).squeeze(1).to(device_of(model))  # (B,)
        tokens = self.train[indices].to(device_of(model))

        def at_one_position(rows: Tensor, numbers: Tensor) -> Tensor:  # (b, n), (b,) -> (b,)
            length = rows.shape[1]
            position = (numbers * length).long()
            log_probs = (-model.replaced_at(rows, position)).log_softmax(-1)  # (b, V)
            return length * self.position_loss(rows, position, log_probs)

        return by_length(at_one_position, tokens, uniforms).mean(), {}


def sampled_pseudo_likelihood(train: Tensor, validation: Tensor) -> SampledPositions:
    """`pseudo_likelihood`, one position at a time."""
    return SampledPositions(pseudo_likelihood, _surprise, train, validation)


def sampled_projection(
    teacher: MaskedLSTM, train: Tensor, validation: Tensor, *, with_likelihood: bool = False
) -> SampledPositions:
    """`projection`, one position at a time."""

    def at(rows: Tensor, position: Tensor, log_probs: Tensor) -> Tensor:
        with torch.no_grad():
            numbers = torch.arange(len(rows), device=rows.device)
            wanted = teacher.masked_logits(rows)[numbers, position].log_softmax(-1)  # (b, V)
        divergence = functional.kl_div(log_probs, wanted, reduction="none", log_target=True).sum(dim=1)
        return divergence + _surprise(rows, position, log_probs) if with_likelihood else divergence

    return SampledPositions(projection(teacher, with_likelihood=with_likelihood), at, train, validation)


def _surprise(rows: Tensor, position: Tensor, log_probs: Tensor) -> Tensor:  # (b, n), (b,), (b, V) -> (b,)
    return -log_probs.gather(1, rows.gather(1, position[:, None])).squeeze(1)


def sequence_losses(loss: SequenceLoss, model: MaskedLSTM, tokens: Tensor) -> Tensor:  # (N, L) -> (N,) float64
    """The loss of each sequence, without gradients."""
    with evaluating(model):
        parts = [
            by_length(lambda rows: loss(model, rows), part.to(device_of(model))).double().cpu()
            for part in tokens.split(EVALUATION_SEQUENCES)
        ]
    return torch.cat(parts)


def _chosen(log_probs: Tensor, tokens: Tensor) -> Tensor:  # (B, n, V), (B, n) -> (B,)
    return log_probs.gather(2, tokens[..., None]).sum(dim=(1, 2))
