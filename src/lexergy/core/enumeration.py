"""Exact distributions over sequences, by enumeration: for small vocabularies and short sequences."""

import torch
from torch import Tensor

from lexergy.core.mcmc.metropolis import Energy


def all_sequences(vocab_size: int, length: int) -> Tensor:  # -> (V ** L, L)
    """All token sequences of a length, in lexicographic order."""
    tokens = torch.arange(vocab_size)
    return torch.cartesian_prod(*[tokens] * length).reshape(-1, length)


def sequence_numbers(tokens: Tensor, vocab_size: int) -> Tensor:  # (..., L) -> (...)
    """Where sequences stand in `all_sequences`."""
    places = vocab_size ** torch.arange(tokens.shape[-1] - 1, -1, -1, device=tokens.device)
    return (tokens * places).sum(dim=-1)


def replacements(tokens: Tensor, position: Tensor, vocab_size: int) -> Tensor:  # (N, L), (N,) -> (N, V, L)
    """Each sequence with every token of the vocabulary in turn at its position."""
    num_rows, length = tokens.shape
    candidates = torch.arange(vocab_size, device=tokens.device).expand(num_rows, -1)
    everywhere = tokens[:, None].expand(-1, vocab_size, -1)
    places = position[:, None, None].expand(-1, vocab_size, 1)
    return everywhere.scatter(2, places, candidates[:, :, None]).view(num_rows, vocab_size, length)


def exact_conditionals(energy: Energy, tokens: Tensor, position: Tensor, vocab_size: int) -> Tensor:
    """log p(y_i = w | y_\\i) of the energy itself, for each w: (N, L), (N,) -> (N, V).

    exp(-E(y_i=w, y_\\i)) / sum_w' exp(-E(y_i=w', y_\\i)), Section 6.2.1, Goyal 2021: V energies per row. These are
    the conditionals that Gibbs sampling and the true pseudo-likelihood need; masked conditionals differ from them.
    """
    candidates = replacements(tokens, position, vocab_size)
    energies = energy(candidates.flatten(0, 1)).view(candidates.shape[:2])
    return (-energies).log_softmax(dim=-1)
