"""A recurrent decoder as a step function: all that search, and training that knows of its search, need of a model.

Shapes: B sentences, K hypotheses of each, T steps, V symbols, E the width of an embedding, D that of a state.
"""

from typing import Protocol, TypeAlias, runtime_checkable

import torch
from torch import Tensor

from lexergy.core.decoding import pick
from lexergy.core.ends import inside, lengths_until

PADDING = -1
"""What stands after the end of a sequence of symbols."""

States: TypeAlias = tuple[Tensor, ...]
"""Each (B, K, ...): what K hypotheses of each of B sentences have come to. Continuous, so that convex combinations of
them make sense (Alg. 3, Goyal 2021)."""


class StepDecoder(Protocol):
    """A recurrent decoder, bound to a batch of B inputs: their encodings, their lengths, their dropout masks.

    The score of a sequence is s(y) = sum_t f(h_t, y_t) (4.3.1, Goyal 2021). In a locally normalised decoder f is a
    log-softmax, in a globally normalised one any number: the decoder decides, search does not know.

    A sequence is over after `lengths` symbols, or after its first `end`. What a decoder answers at later positions
    does not matter, as long as it is finite.
    """

    @property
    def embeddings(self) -> Tensor: ...  # (V, E), of the symbols that are written

    @property
    def lengths(self) -> Tensor: ...  # (B,), how many symbols a sentence has, or may have at most where there is `end`

    @property
    def end(self) -> int | None: ...  # the symbol that ends a sequence; None where lengths are known, as in tagging

    def start(self) -> tuple[States, Tensor]:
        """The states before anything is written, (B, 1, ...) each, and the first input (B, 1, E)."""
        ...

    def step(self, position: int, states: States, inputs: Tensor) -> tuple[Tensor, States]:
        """States (B, K, ...) and the embedding (B, K, E) of what was written last -> scores (B, K, V) of what may be
        written at `position`, and the new states (B, K, ...). Hypotheses do not see each other."""
        ...


@runtime_checkable
class TeacherForcing(Protocol):
    """What a step decoder may have beside: all steps of a known sequence at once."""

    def teacher_forced(self, gold: Tensor) -> Tensor:  # (B, T) -> (B, T, V)
        """What `teacher_forced` answers, sooner."""
        ...


def written(decoder: StepDecoder, symbols: Tensor) -> Tensor:  # (B, T) -> (B, T) bool
    """Which places belong to a sequence: before the sentence's length, the first `end` included, no padding."""
    size = symbols.shape[-1]
    lengths = torch.minimum(lengths_until(symbols, decoder.end), decoder.lengths.to(symbols.device))
    return inside(lengths, size) & (symbols != PADDING)


def teacher_forced(decoder: StepDecoder, gold: Tensor) -> Tensor:  # (B, T) -> (B, T, V)
    """The scores f(h_t, .) at each step, when the gold symbols are what was written before it (3.1, Goyal 2021).

    What is scored after a sequence's end does not matter: mask it by `written`.
    """
    states, inputs = decoder.start()
    embedded = decoder.embeddings[gold.clamp_min(0)].unsqueeze(1)  # (B, 1, T, E)
    scores = []
    for position in range(gold.shape[1]):
        step_scores, states = decoder.step(position, states, inputs)
        scores.append(step_scores[:, 0])
        inputs = embedded[:, :, position]
    return torch.stack(scores, 1)


def score_steps(decoder: StepDecoder, symbols: Tensor) -> Tensor:  # (B, T) -> (B, T)
    """f(h_t, y_t) at each step of a sequence, 0 after its end; in one pass where the decoder has one."""
    if isinstance(decoder, TeacherForcing):
        scores = decoder.teacher_forced(symbols)  # (B, T, V)
    else:
        scores = teacher_forced(decoder, symbols)
    return torch.where(written(decoder, symbols), pick(scores, symbols.clamp_min(0)), 0)


def score_sequences(decoder: StepDecoder, symbols: Tensor) -> Tensor:  # (B, T) -> (B,)
    """s(y) = sum_t f(h_t, y_t), the decoder's score of a whole sequence (4.3.1, Goyal 2021)."""
    return score_steps(decoder, symbols).sum(-1)
