"""A model and the noise that it learns to tell from text, trained together."""

from torch import nn

from lexergy.models.cloze.electric import ElectricModel
from lexergy.models.cloze.generators import Generator


class NoisePair(nn.Module):
    """Electric or ELECTRA with its noise; they share their token embeddings (App. A, Clark et al. 2020)."""

    def __init__(self, model: ElectricModel, noise: Generator) -> None:
        super().__init__()
        self.model = model
        self.noise = noise
        noise.set_input_embeddings(model.get_input_embeddings())  # type: ignore[arg-type]
