"""A masked language model of two LSTMs, and the energy that it defines: small enough to be summed exactly.

logits_t = W_f h_f(y_<t) + W_b h_b(y_>t) + c: one LSTM reads the left context, one the right, and a linear layer
scores the token between them (Section 6.2.3, Goyal 2021, which says no more of the layer than that).

The raw energy of 6.2.1 is then a sum of two path scores, one down the tree of prefixes and one down the tree of
suffixes: each state of an LSTM is computed once for all sequences that share it.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from lexergy.core.enumeration import replacements, sequence_numbers
from lexergy.data.masked.phonemes import PAD
from lexergy.errors import LexergyError
from lexergy.models.architectures.initialisation import initialised_from

LARGEST_TABLE = 2**14  # energies that may be enumerated for a gradient


class TreeStates(NamedTuple):
    """An LSTM's states after some tokens."""

    hidden: Tensor  # (N, D)
    cell: Tensor  # (N, D)

    def select(self, rows: Tensor) -> "TreeStates":
        return TreeStates(self.hidden[rows], self.cell[rows])


class ContextLSTM(nn.Module):
    """An LSTM that reads tokens one way and scores the next one."""

    gate_scale: Tensor  # (4 D,)

    def __init__(self, vocab_size: int, hidden_size: int, *, bias: bool) -> None:
        super().__init__()
        self.vocab_size = vocab_size
        # The token after the last stands for the edge of the sequence, which is read first.
        self.embedding = nn.Embedding(vocab_size + 1, hidden_size)
        self.lstm = nn.LSTM(hidden_size, hidden_size, batch_first=True)
        self.output = nn.Linear(hidden_size, vocab_size, bias=bias)
        # Of the input, forget, cell and output gates, in torch's order; see `advance`.
        scale = torch.tensor([1.0, 1.0, 2.0, 1.0]).repeat_interleave(hidden_size)
        self.register_buffer("gate_scale", scale, persistent=False)

    def context_logits(self, tokens: Tensor) -> Tensor:  # (N, n) -> (N, n, V)
        """Scores of each token given those read before it."""
        edge = torch.full_like(tokens[:, :1], self.vocab_size)
        states, _ = self.lstm(self.embedding(torch.cat([edge, tokens[:, :-1]], dim=1)))
        return self.output(states)

    def input_gates(self) -> Tensor:  # -> (V + 1, 4 D)
        """What each token adds to the gates, whatever came before it."""
        bias = self.lstm.get_parameter("bias_ih_l0") + self.lstm.get_parameter("bias_hh_l0")
        return (self.embedding.weight @ self.lstm.get_parameter("weight_ih_l0").T + bias) * self.gate_scale

    def recurrent_gates(self, states: TreeStates) -> Tensor:  # -> (N, 4 D)
        """What the states add to the gates, whichever token comes next."""
        return states.hidden @ (self.lstm.get_parameter("weight_hh_l0").T * self.gate_scale)

    def root(self) -> TreeStates:
        """The state after the edge alone, (1, D)."""
        zeros = self.output.weight.new_zeros(1, self.lstm.hidden_size)
        return advance(self.input_gates()[-1:], zeros)

    def branch(self, states: TreeStates) -> TreeStates:
        """The states after one more token: (N, D) -> (N V, D), token by token within a parent."""
        gates = self.recurrent_gates(states)[:, None] + self.input_gates()[:-1]  # (N, V, 4 D)
        cells = states.cell[:, None].expand(-1, self.vocab_size, -1)
        return advance(gates.flatten(0, 1), cells.flatten(0, 1))

    def path_scores(self, states: TreeStates, length: int) -> Tensor:  # -> (N, V ** n)
        """Scores of all sequences that may follow, summed over their tokens, in lexicographic order of reading."""
        scores = self.output(states.hidden)
        for _ in range(length - 1):
            states = self.branch(states)
            scores = (scores.flatten()[:, None] + self.output(states.hidden)).view(len(scores), -1)
        return scores


def advance(gates: Tensor, cell: Tensor) -> TreeStates:  # (..., 4 D), (..., D)
    """The LSTM's elementwise half. The cell gate comes doubled: tanh(x) = 2 sigmoid(2 x) - 1 is twice as fast."""
    enter, forget, new, leave = gates.sigmoid().chunk(4, dim=-1)
    cell = forget * cell + enter * (2 * new - 1)
    return TreeStates(leave * (2 * (2 * cell).sigmoid() - 1), cell)


def backwards(values: Tensor, vocab_size: int, length: int) -> Tensor:  # (V ** n, ...) -> (V ** n, ...)
    """Values of all sequences as read from the right, in the order of the sequences as read from the left."""
    shaped = values.view((vocab_size,) * length + values.shape[1:])
    turned = shaped.permute((*range(length - 1, -1, -1), *range(length, shaped.ndim)))
    return turned.reshape(values.shape)


class MaskedLSTM(nn.Module):
    """Masked conditionals and the raw energy over sequences of tokens 0 .. V - 1."""

    def __init__(self, vocab_size: int, hidden_size: int, *, seed: int) -> None:
        super().__init__()
        self.vocab_size = vocab_size
        with initialised_from(seed):
            self.left = ContextLSTM(vocab_size, hidden_size, bias=True)
            self.right = ContextLSTM(vocab_size, hidden_size, bias=False)

    def masked_logits(self, tokens: Tensor) -> Tensor:  # (N, n) -> (N, n, V)
        """log phi_t for every token at every position, given the other positions alone."""
        from_right = self.right.context_logits(tokens.flip(1)).flip(1)
        return self.left.context_logits(tokens) + from_right

    def energy(self, tokens: Tensor) -> Tensor:  # (N, n) -> (N,)
        """E_raw(y) = -sum_t log phi_t(y_t; y_\\t), Section 6.2.1."""
        return -self.masked_logits(tokens).gather(2, tokens[..., None]).sum(dim=(1, 2))

    def energy_table(self, length: int) -> Tensor:  # -> (V ** n,)
        """E_raw of all sequences, in lexicographic order."""
        from_left, from_right = (lstm.path_scores(lstm.root(), length).flatten() for lstm in (self.left, self.right))
        return -(from_left + backwards(from_right, self.vocab_size, length))

    def replacement_energies(self, tokens: Tensor) -> Tensor:  # (N, n) -> (N, n, V)
        """E_raw with each token of the vocabulary in turn at each position: what the true conditionals need."""
        num_rows, length = tokens.shape
        if self.vocab_size**length <= LARGEST_TABLE:
            positions = torch.arange(length, device=tokens.device)
            everywhere = tokens[:, None].expand(-1, length, -1).flatten(0, 1)  # (N n, n)
            changed = replacements(everywhere, positions.repeat(num_rows), self.vocab_size)  # (N n, V, n)
            numbers = sequence_numbers(changed, self.vocab_size)
            return self.energy_table(length)[numbers].view(num_rows, length, self.vocab_size)
        energies = [
            self.replaced_at(tokens, torch.full((num_rows,), position, device=tokens.device))
            for position in range(length)
        ]
        return torch.stack(energies, dim=1)

    def replaced_at(self, tokens: Tensor, position: Tensor) -> Tensor:  # (N, n), (N,) -> (N, V)
        """E_raw with each token of the vocabulary in turn at one position of each sequence."""
        changed = replacements(tokens, position, self.vocab_size)
        return self.energy(changed.flatten(0, 1)).view(changed.shape[:2])


def by_length(function: Callable[..., Tensor], tokens: Tensor, *columns: Tensor) -> Tensor:  # (N, L), (N,) -> (N,)
    """`function` of the sequences of each length apart, without their padding, and of the others' same rows."""
    lengths = lengths_of(tokens)
    parts, rows = [], []
    for length in lengths.unique().tolist():
        chosen = (lengths == length).nonzero().squeeze(1)
        parts.append(function(tokens[chosen, :length], *(column[chosen] for column in columns)))
        rows.append(chosen)
    return torch.cat(parts)[torch.cat(rows).argsort()]


def lengths_of(tokens: Tensor) -> Tensor:  # (N, L) -> (N,)
    """The lengths of padded sequences."""
    lengths = (tokens != PAD).sum(dim=1)
    if len(tokens) == 0 or int(lengths.min()) == 0:
        raise LexergyError(
            f"`tokens` is {tuple(tokens.shape)} with an empty sequence; expected at least one token each."
        )
    return lengths
