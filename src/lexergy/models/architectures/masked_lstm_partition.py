"""The exact partition function of a `MaskedLSTM`: billions of sequences, a block that fits the cache at a time."""

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from lexergy.models.architectures.masked_lstm import ContextLSTM, MaskedLSTM, TreeStates, advance, backwards
from lexergy.progress import progress_bar

BLOCK_SEQUENCES = 2**16


def log_partition(model: MaskedLSTM, length: int, *, progress: bool = False) -> float:
    """log Z_n = log sum exp(-E(y)) over all V^n sequences y of n tokens, exactly.

    The energy is a score F down the tree of prefixes plus a score R down the tree of suffixes. With y cut around a
    middle token, y = u m v,

        -E(y) = F(u m) + F(v | state of u m) + R(m v) + R(u | state of m v).

    All sequences that share m and u but for its first token make a block of V^(1 + |v|): F(v | u m) is a subtree
    below V states, R(u | m v) ends with one LSTM step for each v and one matrix product for all first tokens. Each
    of the V^(n - 1) innermost states is computed once and forgotten with its block; V^|u| states are kept.
    """
    with torch.no_grad():
        if length == 1:
            return _logsumexp(-model.energy_table(1))
        after = _half(model.vocab_size, length)
        num_blocks = model.vocab_size ** (length - 1 - after)
        with progress_bar(f"log Z, length {length}", num_blocks, progress) as bar:
            totals = []
            for block in _blocks(model, before=length - 1 - after, after=after):
                totals.append(_logsumexp(block))
                bar.advance()
    peak = max(totals)
    return peak + math.log(math.fsum(math.exp(total - peak) for total in totals))


def _half(vocab_size: int, length: int) -> int:
    """|v|: as long as a block stays within the cache, and u has a token."""
    fitting = [after for after in range(length - 1) if vocab_size ** (1 + after) <= BLOCK_SEQUENCES]
    return max(fitting, default=0)


def _blocks(model: MaskedLSTM, before: int, after: int) -> Iterator[Tensor]:
    """-E of all sequences, in blocks (V, V ** |v|)."""
    vocab_size = model.vocab_size
    first_tokens = torch.arange(vocab_size, device=model.left.output.weight.device) * vocab_size ** (before - 1)
    left, left_scores = _leaves(model.left, before)
    right, right_scores = _leaves(model.right, after)
    right = TreeStates(*(backwards(part, vocab_size, after) for part in right))
    right_scores = backwards(right_scores, vocab_size, after)
    for middle in range(vocab_size):
        below, scores = _step(model.left, left, left_scores, middle)
        above, from_right = _step(model.right, right, right_scores, middle)
        for rest, block in _right_blocks(model.right, above, from_right, before):
            rows = first_tokens + rest
            block = block.T + scores[rows, None]  # (V, V ** |v|)
            if after:
                block = block.add_(model.left.path_scores(below.select(rows), after))
            yield block


def _leaves(lstm: ContextLSTM, length: int) -> tuple[TreeStates, Tensor]:
    """The states after each sequence of a length, and its score: (V ** n, D), (V ** n,)."""
    states = lstm.root()
    scores = states.hidden.new_zeros(1)
    for _ in range(length):
        scores = (scores[:, None] + lstm.output(states.hidden)).flatten()
        states = lstm.branch(states)
    return states, scores


def _step(lstm: ContextLSTM, states: TreeStates, scores: Tensor, token: int) -> tuple[TreeStates, Tensor]:
    """All states after one and the same token, and its score added."""
    following = advance(lstm.recurrent_gates(states) + lstm.input_gates()[token], states.cell)
    return following, scores + lstm.output(states.hidden)[:, token]


def _right_blocks(lstm: ContextLSTM, states: TreeStates, scores: Tensor, before: int) -> Iterator[tuple[int, Tensor]]:
    """R of u for each u but for its first token: the number of that string, and scores (V ** |v|, V)."""
    input_gates = lstm.input_gates()

    def walk(states: TreeStates, scores: Tensor, depth: int, number: int) -> Iterator[tuple[int, Tensor]]:
        following = scores[:, None] + lstm.output(states.hidden)
        if depth == before - 1:
            yield number, following
            return
        gates = lstm.recurrent_gates(states)  # shared by all tokens that may come next
        for token in range(lstm.vocab_size):
            later = advance(gates + input_gates[token], states.cell)
            yield from walk(later, following[:, token], depth + 1, number + token * lstm.vocab_size**depth)

    return walk(states, scores, 0, 0)


def _logsumexp(values: Tensor) -> float:
    """Summed in float64, whatever the values' own precision: there are many."""
    peak = values.max()
    return float(peak.double() + (values - peak).exp().sum(dtype=torch.double).log())
