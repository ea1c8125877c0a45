"""The stage of an energy: build it as the recipe says, train it by NCE, keep the best weights."""

from pathlib import Path
from typing import Any

import torch

from lexergy.models.energies import EnergyModel, Lora, NgramTables, StatesEnergy, TransformerEnergy, as_energy
from lexergy.tasks.base_models import seeded, training_facts
from lexergy.tasks.context import RunContext
from lexergy.tasks.negatives import contrastive_data
from lexergy.tasks.recipe import EncoderEnergyRecipe, EnergyRecipe, StatesEnergyRecipe
from lexergy.tasks.stages import Stage
from lexergy.training.loop import train
from lexergy.training.objectives import ContrastiveData, NoiseContrastive


def train_energy(context: RunContext, name: str, negatives: Stage, folder: Path, seed: int) -> dict[str, Any]:
    """Train one energy against the stored negatives (Eq. 3, Deng et al. 2020)."""
    recipe = context.recipe.energies[name]
    reads_states = isinstance(recipe, StatesEnergyRecipe)
    data, validation = contrastive_data(context, negatives.folder, negatives.seed, with_features=reads_states)
    energy = make_energy(context, recipe, seed)
    if isinstance(energy, StatesEnergy):
        energy.fit_standardisation(_all_features(data))
    as_energy(energy, context.lm)
    config = seeded(recipe.training, seed)
    result = train(energy, NoiseContrastive(data, validation), config, folder, progress=context.progress, label=name)
    energy.save_pretrained(folder)
    trained = sum(weight.numel() for weight in energy.parameters() if weight.requires_grad)
    return {"trained_parameters": trained, **training_facts(result)}


def make_energy(context: RunContext, recipe: EnergyRecipe, seed: int) -> EnergyModel:
    """The energy before its training, zero everywhere."""
    if isinstance(recipe, StatesEnergyRecipe):
        return StatesEnergy.for_lm(
            context.lm, recipe.layers, hidden_units=recipe.hidden_units, dropout=recipe.dropout, seed=seed
        )
    lora = None if recipe.lora is None else Lora(**recipe.lora.model_dump())
    if isinstance(recipe, EncoderEnergyRecipe):
        return TransformerEnergy.from_encoder(recipe.source, lora=lora, seed=seed)
    tables = None if recipe.ngram_tables is None else NgramTables(**recipe.ngram_tables.model_dump())
    if recipe.origin == "masked_lm":
        return TransformerEnergy.from_masked_lm(context.folder / "masked_lm", lora=lora, ngram_tables=tables, seed=seed)
    causal = recipe.kind == "unit"
    return TransformerEnergy.from_causal_lm(context.lm, causal=causal, lora=lora, ngram_tables=tables, seed=seed)


def _all_features(data: ContrastiveData) -> torch.Tensor:
    """People's and the LM's features together: (N * (1 + K), F)."""
    assert data.features is not None
    assert data.negative_features is not None
    return torch.cat([data.features, data.negative_features.flatten(0, 1)])
