"""What an energy may start from, whoever builds it."""

from typing import Protocol

from lexergy.models.causal.language_model import LanguageModel
from lexergy.models.causal.lm import CausalLM
from lexergy.models.energies.backbones import Backbone
from lexergy.models.energies.base import EnergyModel
from lexergy.recipes.sections.energies import RefreshedEnergyRecipe


class Origins(Protocol):
    """The models around an energy: those of a run, or, to count parameters, models of the same shapes."""

    @property
    def lm(self) -> LanguageModel: ...

    def masked_lm(self) -> Backbone: ...

    def encoder(self, source: str) -> Backbone: ...

    def causal_lm(self, source: str) -> CausalLM: ...

    def energy(self, name: str) -> EnergyModel: ...


def build_refreshed(recipe: RefreshedEnergyRecipe, origins: Origins, seed: int) -> EnergyModel:
    """The energy as it was when its first training ended."""
    return origins.energy(recipe.of)
