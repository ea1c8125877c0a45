"""The stage of an energy: build it as the recipe says, train it, keep the best weights; or sum up others."""

from dataclasses import asdict, dataclass
from pkgutil import resolve_name

import torch

from lexergy.core.fitting.combination import fit_combination
from lexergy.core.losses import nce_loss, nce_metrics
from lexergy.errors import LexergyError
from lexergy.models.causal.language_model import LanguageModel
from lexergy.models.causal.lm import CausalLM
from lexergy.models.energies import EnergyModel, SumEnergy, as_energy
from lexergy.models.energies.backbones import Backbone, encoder_backbone, masked_backbone
from lexergy.models.energies.origins import Origins
from lexergy.recipes.residual import ResidualRecipe
from lexergy.recipes.sections.energies import (
    ENERGY_KINDS,
    OBJECTIVES,
    ObjectiveRecipe,
    RefreshedEnergyRecipe,
    TrainedEnergyRecipe,
)
from lexergy.recipes.sections.energy import LearntEnergyRecipe
from lexergy.runs.stages import Facts, Stage
from lexergy.runs.workspace import OpenStage
from lexergy.tasks.residual.context import RunContext
from lexergy.tasks.residual.negatives import chosen_pairs, contrastive_data
from lexergy.tasks.residual.refresh import refresh_negatives
from lexergy.training.objectives.contrastive import (
    ContrastiveData,
    PairObjective,
    pair_energies,
)
from lexergy.training.stage import seeded, train_into


def check_pairs(recipe: ResidualRecipe, num_windows: int) -> None:
    """Refuse an energy that asks for more pairs than there are training windows, before anything is sampled."""
    for name, energy in recipe.energies.items():
        wanted = energy.pairs if isinstance(energy, LearntEnergyRecipe) else None
        if wanted is not None and wanted > num_windows:
            raise LexergyError(
                f"the energy `{name}` asks for {wanted} pairs; expected at most {num_windows}, the number of training "
                "windows; raise `windows.train`, add text, or ask for fewer."
            )


def train_energy(context: RunContext, name: str, negatives: Stage, stage: OpenStage) -> Facts:
    """Train one energy against the stored negatives."""
    recipe = context.recipe.energies[name]
    assert isinstance(recipe, TrainedEnergyRecipe)
    energy = make_energy(recipe, RunOrigins(context), stage.seed)
    data, validation = contrastive_data(context, negatives, energy.features)
    data = data.select(chosen_pairs(context, len(data), recipe.pairs))
    if isinstance(recipe, RefreshedEnergyRecipe):
        data, validation = refresh_negatives(context, recipe, [data, validation], stage)
    elif energy.features is not None:
        energy.fit_standardisation(_all_features(data))
    as_energy(energy, context.lm)
    objective = make_objective(recipe.objective, data, validation)
    training = seeded(recipe.training, stage)
    return train_into(stage, energy, objective, training, save=energy.save_pretrained, label=name)


def make_objective(recipe: ObjectiveRecipe, data: ContrastiveData, validation: ContrastiveData) -> PairObjective:
    """What the energy is trained to minimise."""
    return resolve_name(OBJECTIVES[recipe.loss])(data, validation, recipe.mining, recipe.margin)


def fit_sum(context: RunContext, parts: list[Stage], negatives: Stage, stage: OpenStage) -> Facts:
    """E = c_0 + sum_i c_i E_i over trained energies, the coefficients fitted by NCE on the validation pairs.

    Not on the training pairs: the parts have learnt those by heart, the more so the more parameters they have,
    and would get coefficients that are too large. Of the validation pairs the parts know only at which step to
    stop, and the coefficients are few.
    """
    energies = []
    for part in parts:
        energy = EnergyModel.from_pretrained(part.folder).attach(context.lm)
        _, validation = contrastive_data(context, negatives, energy.features)
        energies.append(pair_energies(energy, validation))
    stacked = torch.stack(energies, dim=-1)  # (N, 1 + K, n)
    data, noise = stacked[:, 0], stacked[:, 1:].flatten(0, 1)
    fitted = fit_combination(data, noise)
    coefficients = fitted.coefficients.tolist()
    SumEnergy.of([part.folder for part in parts], coefficients, fitted.constant).save_pretrained(stage.folder)
    data_energy, noise_energy = fitted.energy(data), fitted.energy(noise)
    return {
        "constant": fitted.constant,
        "coefficients": {part.name: coefficient for part, coefficient in zip(parts, coefficients, strict=True)},
        "validation": {
            "loss": float(nce_loss(data_energy, noise_energy)),
            **asdict(nce_metrics(data_energy, noise_energy)),
        },
    }


def make_energy(recipe: LearntEnergyRecipe, origins: Origins, seed: int) -> EnergyModel:
    """The energy before its training: zero everywhere, or what it was when it is trained on."""
    builder = ENERGY_KINDS[recipe.kind].builder
    assert builder is not None
    return resolve_name(builder)(recipe, origins, seed)


@dataclass(frozen=True)
class RunOrigins:
    """The finished models of a run."""

    context: RunContext

    @property
    def lm(self) -> LanguageModel:
        return self.context.lm

    def masked_lm(self) -> Backbone:
        return masked_backbone(self.context.folder / "masked_lm")

    def encoder(self, source: str) -> Backbone:
        return encoder_backbone(source)

    def causal_lm(self, source: str) -> CausalLM:
        return CausalLM.from_pretrained(source)

    def energy(self, name: str) -> EnergyModel:
        return self.context.energy(name)


def _all_features(data: ContrastiveData) -> torch.Tensor:
    """People's and the LM's features together: (N * (1 + K), F)."""
    assert data.features is not None
    assert data.negative_features is not None
    return torch.cat([data.features, data.negative_features.flatten(0, 1)])
