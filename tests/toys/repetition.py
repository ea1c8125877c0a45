"""A kind of energy that Lexergy does not have: what one adds to have it."""

from typing import Literal

import torch
from torch import Tensor, nn

from lexergy.models.energies import EnergyConfig, EnergyModel
from lexergy.models.energies.origins import Origins
from lexergy.recipes.sections.energies import EnergyKind, TrainedEnergyRecipe


class RepetitionEnergyConfig(EnergyConfig):
    model_type = "toy_repetition"


class RepetitionEnergy(EnergyModel):
    """E(x) = a r(x) + b, r the share of tokens that are the same as the one before."""

    config_class = RepetitionEnergyConfig

    def __init__(self, config: RepetitionEnergyConfig) -> None:
        super().__init__(config)
        self.line = nn.Parameter(torch.zeros(2))

    def forward(self, prefix: Tensor, continuations: Tensor, features: Tensor | None = None) -> Tensor:
        share = (continuations[..., 1:] == continuations[..., :-1]).float().mean(-1)  # (B, K)
        return self.line[0] * share + self.line[1]


class RepetitionEnergyRecipe(TrainedEnergyRecipe):
    kind: Literal["repetition"]


def build_repetition(recipe: RepetitionEnergyRecipe, origins: Origins, seed: int) -> RepetitionEnergy:
    return RepetitionEnergy(RepetitionEnergyConfig())


REPETITION = EnergyKind(RepetitionEnergyRecipe, "tokens", "toys.repetition:build_repetition", "Counts repetitions.")
