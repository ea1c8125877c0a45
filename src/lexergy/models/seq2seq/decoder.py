"""The output side of a sequence-to-sequence model: an LSTM that writes symbols, bound to a batch as a `StepDecoder`."""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor, nn

from lexergy.core.ends import inside
from lexergy.core.search_aware.step_decoder import States
from lexergy.models.architectures.masked_lstm import advance
from lexergy.models.seq2seq.encoder import Encoding


class Masks(NamedTuple):
    """What dropout leaves of each vector, the same at all places of a sentence (Gal & Ghahramani 2016).

    Drawn once for a sentence, so that gold and beam meet the same network and padding changes nothing.
    """

    words: Tensor  # (B, 1, W)
    encoded: Tensor  # (B, 1, D)
    symbols: Tensor  # (B, 1, E)
    written: Tensor  # (B, 1, D')


class AdditiveAttention(nn.Module):
    """a_i = softmax_i(v . tanh(W h + U x_i)) (Bahdanau et al. 2015), asked by the decoder's new state.

    As in Luong et al. (2015), but nothing is fed back, so that all states along a gold sequence come from one pass.
    """

    def __init__(self, encoded_size: int, hidden_size: int) -> None:
        super().__init__()
        self.query = nn.Linear(hidden_size, hidden_size, bias=False)
        self.key = nn.Linear(encoded_size, hidden_size)
        self.strength = nn.Linear(hidden_size, 1, bias=False)

    def forward(self, hidden: Tensor, keys: Tensor, lengths: Tensor) -> Tensor:  # (B, N, D'), (B, S, D') -> (B, N, S)
        energies = self.strength((self.query(hidden).unsqueeze(2) + keys.unsqueeze(1)).tanh()).squeeze(-1)
        present = inside(lengths, keys.shape[1]).unsqueeze(1)
        return energies.masked_fill(~present, -torch.inf).softmax(-1)


class Decoder(nn.Module):
    """The weights: embeddings of symbols, an LSTM over them, scores O (h_t + P c_t) of the next symbol.

    With fixed attention c_t is the encoder's state t, which the LSTM reads too, beside the symbol before; it starts
    from zeros, so that c_1 .. c_t are all that it knows of the input (5.4.2, Goyal 2021). Otherwise it starts from the
    encoder's last states, and c_t is what it attends to. P c_t is not bounded as h_t is: with it an epoch on UD-EWT
    gives 71 % of the labels, without it 51 %.
    """

    def __init__(self, num_symbols: int, symbol_size: int, encoded_size: int, hidden_size: int, attends: bool) -> None:
        super().__init__()
        self.embedding = nn.Embedding(num_symbols, symbol_size)
        self.first = nn.Embedding(1, symbol_size)  # what is read before anything was written
        self.lstm = nn.LSTM(symbol_size + (0 if attends else encoded_size), hidden_size, batch_first=True)
        self.attention = AdditiveAttention(encoded_size, hidden_size) if attends else None
        self.start_states = nn.Linear(encoded_size, 2 * hidden_size) if attends else None
        self.context = nn.Linear(encoded_size, hidden_size)
        self.output = nn.Linear(hidden_size, num_symbols)

    @property
    def symbol_size(self) -> int:
        return self.embedding.embedding_dim


@dataclass(frozen=True)
class BoundDecoder:
    """A `StepDecoder`: the weights, the sentences that are read, and the masks of dropout if there are any."""

    module: Decoder
    encoding: Encoding
    lengths: Tensor  # (B,)
    end: int | None
    normalised: bool
    masks: Masks | None

    @property
    def embeddings(self) -> Tensor:  # (V, E)
        return self.module.embedding.weight

    def start(self) -> tuple[States, Tensor]:
        inputs = self.module.first.weight.expand(len(self.lengths), 1, -1)
        return tuple(state.unsqueeze(1) for state in self._start_states), inputs

    def step(self, position: int, states: States, inputs: Tensor) -> tuple[Tensor, States]:
        """(B, K, D') each and (B, K, E) -> (B, K, V) and (B, K, D') each."""
        hidden, cell = states
        gates = self._masked(inputs) @ self._symbol_weight + hidden @ self._recurrent_weight
        gates = gates + (self._bias if self.module.attention else self._encoded_gates[:, position].unsqueeze(1))
        hidden, cell = advance(gates, cell)
        return self._scores(hidden, slice(position, position + 1)), (hidden, cell)

    def teacher_forced(self, gold: Tensor) -> Tensor:  # (B, T) -> (B, T, V)
        """What `core.search_aware.step_decoder.teacher_forced` computes step by step, in one pass of the LSTM."""
        before = self.embeddings[gold[:, :-1].clamp_min(0)]  # (B, T - 1, E)
        inputs = self._masked(torch.cat([self.start()[1], before], dim=1))
        if self.module.attention is None:
            inputs = torch.cat([inputs, self.encoding.states[:, : gold.shape[1]]], dim=-1)
        hidden, cell = (state.unsqueeze(0).contiguous() for state in self._start_states)
        states, _ = self.module.lstm(inputs, (hidden, cell))
        return self._scores(states, slice(gold.shape[1]))

    def _scores(self, hidden: Tensor, positions: slice) -> Tensor:  # (B, N, D') -> (B, N, V)
        """Scores after hypotheses at one position, or along the positions of gold."""
        if self.module.attention is None:
            context = self._contexts[:, positions]
        else:
            context = self.module.attention(hidden, self._keys, self.encoding.lengths) @ self._contexts
        hidden = hidden + context
        scores = self.module.output(hidden if self.masks is None else hidden * self.masks.written)
        return scores.log_softmax(-1) if self.normalised else scores

    def _masked(self, inputs: Tensor) -> Tensor:  # (B, N, E)
        return inputs if self.masks is None else inputs * self.masks.symbols

    @cached_property
    def _start_states(self) -> tuple[Tensor, Tensor]:  # (B, D') each
        if self.module.start_states is None:
            zeros = self.encoding.last.new_zeros(len(self.lengths), self.module.lstm.hidden_size)
            return zeros, zeros
        hidden, cell = self.module.start_states(self.encoding.last).tanh().chunk(2, dim=-1)
        return hidden, cell

    @cached_property
    def _contexts(self) -> Tensor:  # (B, S, D')
        return self.module.context(self.encoding.states)

    @cached_property
    def _keys(self) -> Tensor:  # (B, S, D')
        assert self.module.attention is not None
        return self.module.attention.key(self.encoding.states)

    @cached_property
    def _gate_scale(self) -> Tensor:  # (4 D',)
        """`advance` wants the cell's gate doubled; torch's order is input, forget, cell, output."""
        return self.embeddings.new_tensor([1.0, 1.0, 2.0, 1.0]).repeat_interleave(self.module.lstm.hidden_size)

    @cached_property
    def _scaled_input_weight(self) -> Tensor:  # (E, 4 D') or (E + D, 4 D')
        return self.module.lstm.get_parameter("weight_ih_l0").T * self._gate_scale

    @cached_property
    def _symbol_weight(self) -> Tensor:  # (E, 4 D')
        return self._scaled_input_weight[: self.module.symbol_size]

    @cached_property
    def _recurrent_weight(self) -> Tensor:  # (D', 4 D')
        return self.module.lstm.get_parameter("weight_hh_l0").T * self._gate_scale

    @cached_property
    def _bias(self) -> Tensor:  # (4 D',)
        bias = self.module.lstm.get_parameter("bias_ih_l0") + self.module.lstm.get_parameter("bias_hh_l0")
        return bias * self._gate_scale

    @cached_property
    def _encoded_gates(self) -> Tensor:  # (B, S, 4 D')
        """What the input adds to the gates at each step, whatever was written: one product for all steps."""
        return self.encoding.states @ self._scaled_input_weight[self.module.symbol_size :] + self._bias
