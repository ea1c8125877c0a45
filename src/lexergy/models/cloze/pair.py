"""A model and the noise that it learns to tell from text."""

from typing import Self

from torch import nn

from lexergy.models.cloze.electric import ElectricModel
from lexergy.models.cloze.generators import Generator


class NoisePair(nn.Module):
    """Electric or ELECTRA with its noise.

    They are trained together and share their token embeddings (App. A, Clark et al. 2020), unless the noise is
    `finished`: it then stays as it is and keeps its own.
    """

    def __init__(self, model: ElectricModel, noise: Generator, *, finished: bool = False) -> None:
        super().__init__()
        self.model = model
        self.noise = noise
        self.finished = finished
        if finished:
            noise.requires_grad_(False)
        else:
            noise.set_input_embeddings(model.get_input_embeddings())  # type: ignore[arg-type]

    def train(self, mode: bool = True) -> Self:
        super().train(mode)
        if self.finished:
            self.noise.eval()
        return self
