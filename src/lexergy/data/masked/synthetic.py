"""Distributions over short sequences, known exactly: palindromes and hidden Markov models (6.2.3, Goyal 2021)."""

from dataclasses import dataclass

import torch
from torch import Tensor

from lexergy.core.enumeration import all_sequences, sequence_numbers
from lexergy.errors import LexergyError

PALINDROME_SHARE = 0.8
HIDDEN_STATES = 4


@dataclass(frozen=True)
class SequenceDistribution:
    """The probability of every sequence of a length."""

    vocab_size: int
    length: int
    log_probs: Tensor  # (V ** n,) float64, in lexicographic order

    @property
    def entropy(self) -> float:
        """In nats: the smallest expected negative log-likelihood of any model."""
        return float(-(self.log_probs.exp() * self.log_probs).sum())

    def sample(self, count: int, seed: int) -> Tensor:  # -> (N, n)
        generator = torch.Generator().manual_seed(seed)
        numbers = torch.multinomial(self.log_probs.exp(), count, replacement=True, generator=generator)
        return all_sequences(self.vocab_size, self.length)[numbers]

    def log_prob(self, tokens: Tensor) -> Tensor:  # (N, n) -> (N,)
        return self.log_probs[sequence_numbers(tokens, self.vocab_size)]


def palindromes(vocab_size: int = 5, length: int = 5, share: float = PALINDROME_SHARE) -> SequenceDistribution:
    """With probability `share` a palindrome, else another sequence; uniform among either."""
    sequences = all_sequences(vocab_size, length)
    is_palindrome = (sequences == sequences.flip(1)).all(dim=1)
    mass = torch.where(is_palindrome, share / is_palindrome.sum(), (1 - share) / (~is_palindrome).sum())
    return SequenceDistribution(vocab_size, length, mass.double().log())


def hidden_markov(entropy: float, seed: int, vocab_size: int = 5, length: int = 5) -> SequenceDistribution:
    """A random hidden Markov model with 4 states, as sharp as it takes to have this entropy.

    Initial, transition and emission probabilities are softmaxes of normal numbers times a sharpness,
    which is found by bisection.
    """
    generator = torch.Generator().manual_seed(seed)
    rows = [(1, HIDDEN_STATES), (HIDDEN_STATES, HIDDEN_STATES), (HIDDEN_STATES, vocab_size)]
    logits = [torch.randn(shape, generator=generator, dtype=torch.double) for shape in rows]
    low, high = 0.0, 64.0
    for _ in range(60):
        middle = (low + high) / 2
        distribution = _forward([middle * part for part in logits], length)
        low, high = (middle, high) if distribution.entropy > entropy else (low, middle)
    if abs(distribution.entropy - entropy) > 1e-6:
        raise LexergyError(
            f"`entropy` is {entropy} nats; this model reaches {distribution.entropy:.3f}; expected at most that of "
            "uniform sequences and more than 0; choose another entropy or seed."
        )
    return distribution


def _forward(logits: list[Tensor], length: int) -> SequenceDistribution:
    """The forward algorithm down the tree of all sequences."""
    initial, transition, emission = (part.softmax(-1) for part in logits)
    vocab_size = emission.shape[1]
    forward = initial  # (V ** t, S): of the sequence so far and of the state that writes the next token
    for position in range(length):
        written = forward[:, None, :] * emission.T  # (V ** t, V, S)
        forward = written.flatten(0, 1)
        if position < length - 1:
            forward = forward @ transition
    return SequenceDistribution(vocab_size, length, forward.sum(dim=1).log())
