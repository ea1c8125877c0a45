"""How many parameters each row of a recipe's table has, counted without making a single one."""

from dataclasses import dataclass
from functools import cached_property

import torch

from lexergy.models.architectures.scratch import build_causal_lm, build_masked_lm
from lexergy.models.causal.lm import CausalLM
from lexergy.models.causal.product_lm import ProductLM, make_baseline, num_parameters
from lexergy.models.energies import EnergyModel
from lexergy.models.energies.backbones import Backbone, masked_backbone, untrained_encoder
from lexergy.models.loading.weights import untrained_causal_lm
from lexergy.recipes.residual import LoraBaselineRecipe, ResidualRecipe
from lexergy.recipes.sections.energy import LearntEnergyRecipe
from lexergy.tasks.residual.base_models import sizes_of
from lexergy.tasks.residual.baselines import block_length
from lexergy.tasks.residual.energies import make_energy


def count_parameters(recipe: ResidualRecipe) -> dict[str, int]:
    """Parameters by row, as Table 1 of Deng et al. (2020) counts: `lm`, what each energy and RALM adds to it, BALM's.

    Tied weights count once. An LM trained here has the vocabulary that the recipe asks for.
    """
    with torch.device("meta"):
        shapes = _Shapes(recipe)
        return {
            "lm": num_parameters(shapes.lm.model),
            **{name: _energy_parameters(shapes, name) for name in recipe.energies},
            **{name: _baseline_parameters(shapes, name) for name in recipe.baselines},
        }


@dataclass(frozen=True)
class _Shapes:
    """The models that energies start from, built as the recipe says, without their numbers."""

    recipe: ResidualRecipe

    @cached_property
    def lm(self) -> CausalLM:
        trained = self.recipe.lm.train
        if trained is None:
            return CausalLM(untrained_causal_lm(str(self.recipe.lm.source)), source="lm")
        return CausalLM(build_causal_lm(trained.vocab_size, **sizes_of(trained), seed=0), source="lm")

    def masked_lm(self) -> Backbone:
        assert self.recipe.masked_lm is not None
        masked_lm = build_masked_lm(self.lm.vocab_size, **sizes_of(self.recipe.masked_lm), seed=0)
        return masked_backbone(masked_lm)._replace(source="masked_lm")

    def encoder(self, source: str) -> Backbone:
        return untrained_encoder(source)

    def causal_lm(self, source: str) -> CausalLM:
        return CausalLM(untrained_causal_lm(source), source=source)

    def energy(self, name: str) -> EnergyModel:
        recipe = self.recipe.energies[name]
        assert isinstance(recipe, LearntEnergyRecipe)
        return make_energy(recipe, self, seed=0)


def _energy_parameters(shapes: _Shapes, name: str) -> int:
    recipe = shapes.recipe.energies[name]
    if isinstance(recipe, LearntEnergyRecipe):
        return num_parameters(shapes.energy(name))
    return sum(_energy_parameters(shapes, part) for part in recipe.starts_from)


def _baseline_parameters(shapes: _Shapes, name: str) -> int:
    recipe = shapes.recipe.baselines[name]
    if isinstance(recipe, LoraBaselineRecipe):
        return num_parameters(shapes.lm.model)  # its adapters are merged into the LM
    model = make_baseline(recipe, shapes.lm, block_length(shapes.recipe, recipe), seed=0)
    return num_parameters(model.residual if isinstance(model, ProductLM) else model)
