"""Recurrent decoders in double precision, small enough to be enumerated."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from lexergy.core.search_aware.step_decoder import States


@dataclass(frozen=True)
class ToyDecoder:
    """h_t = tanh(W h_{t-1} + U e_{t-1} + x_t), f(h_t, .) = O h_t, normalised locally or not."""

    inputs: Tensor  # (B, T, D)
    lengths: Tensor  # (B,)
    recurrence: Tensor  # (D, D)
    feeding: Tensor  # (E, D)
    output: Tensor  # (D, V)
    embeddings: Tensor  # (V, E)
    end: int | None = None
    normalised: bool = True

    def start(self) -> tuple[States, Tensor]:
        batch, _, width = self.inputs.shape
        return (self.inputs.new_zeros(batch, 1, width),), self.inputs.new_zeros(batch, 1, self.embeddings.shape[1])

    def step(self, position: int, states: States, inputs: Tensor) -> tuple[Tensor, States]:
        hidden = (states[0] @ self.recurrence + inputs @ self.feeding + self.inputs[:, position, None]).tanh()
        scores = hidden @ self.output
        return scores.log_softmax(-1) if self.normalised else scores, (hidden,)

    def of(self, sentence: int, size: int | None = None) -> "ToyDecoder":
        """The same decoder bound to a single sentence, its padding cut off at `size`."""
        sentences = slice(sentence, sentence + 1)
        return replace(self, inputs=self.inputs[sentences, :size], lengths=self.lengths[sentences])


def toy_decoder(
    lengths: tuple[int, ...] = (4, 2, 3),
    vocab_size: int = 3,
    *,
    seed: int = 0,
    end: int | None = None,
    normalised: bool = True,
    width: int = 5,
    scale: float = 2.0,
) -> ToyDecoder:
    """Random weights, large enough that what was written decides what comes next."""
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.double)

    return ToyDecoder(
        draw(len(lengths), max(lengths), width),
        torch.tensor(lengths),
        draw(width, width) / width**0.5,
        draw(4, width),
        draw(width, vocab_size) * scale,
        draw(vocab_size, 4),
        end,
        normalised,
    )
