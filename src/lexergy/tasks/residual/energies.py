"""The stage of an energy: build it as the recipe says, train it, keep the best weights; or sum up others."""

from dataclasses import asdict
from typing import Any

import torch

from lexergy.core.combination import fit_combination
from lexergy.core.losses import nce_loss, nce_metrics
from lexergy.errors import LexergyError
from lexergy.models.energies import (
    BiLSTMEnergy,
    BiLSTMEnergyConfig,
    EnergyModel,
    LinearEnergy,
    LinearEnergyConfig,
    Lora,
    NgramTables,
    StatesEnergy,
    SumEnergy,
    TransformerEnergy,
    as_energy,
)
from lexergy.recipes.energies import (
    BiLSTMEnergyRecipe,
    EncoderEnergyRecipe,
    LinearEnergyRecipe,
    ObjectiveRecipe,
    RefreshedEnergyRecipe,
    StatesEnergyRecipe,
    SumEnergyRecipe,
    TransformerEnergyRecipe,
)
from lexergy.recipes.residual import ResidualRecipe
from lexergy.runs.stages import Facts, Stage, stage_seed
from lexergy.runs.workspace import OpenStage
from lexergy.tasks.residual.context import RunContext
from lexergy.tasks.residual.negatives import contrastive_data
from lexergy.tasks.residual.refresh import refresh_negatives
from lexergy.training.objectives.contrastive import (
    ContrastiveData,
    NoiseContrastive,
    PairObjective,
    Ranking,
    pair_energies,
)
from lexergy.training.stage import seeded, train_into

TokenRecipe = LinearEnergyRecipe | BiLSTMEnergyRecipe
TrainedRecipe = StatesEnergyRecipe | TokenRecipe | TransformerEnergyRecipe | EncoderEnergyRecipe | RefreshedEnergyRecipe


def check_pairs(recipe: ResidualRecipe, num_windows: int) -> None:
    """Refuse an energy that asks for more pairs than there are training windows, before anything is sampled."""
    for name, energy in recipe.energies.items():
        wanted = None if isinstance(energy, SumEnergyRecipe) else energy.pairs
        if wanted is not None and wanted > num_windows:
            raise LexergyError(
                f"the energy `{name}` asks for {wanted} pairs; expected at most {num_windows}, the number of training "
                "windows; raise `windows.train`, add text, or ask for fewer."
            )


def train_energy(context: RunContext, name: str, negatives: Stage, stage: OpenStage) -> Facts:
    """Train one energy against the stored negatives."""
    recipe = context.recipe.energies[name]
    assert not isinstance(recipe, SumEnergyRecipe)
    energy = make_energy(context, recipe, stage.seed)
    data, validation = contrastive_data(context, negatives, energy.features)
    data = _some_pairs(context, data, recipe.pairs)
    if isinstance(recipe, RefreshedEnergyRecipe):
        data, validation = refresh_negatives(context, recipe, [data, validation], stage)
    elif isinstance(energy, StatesEnergy):
        energy.fit_standardisation(_all_features(data))
    as_energy(energy, context.lm)
    objective = make_objective(recipe.objective, data, validation)
    training = seeded(recipe.training, stage)
    return train_into(stage, energy, objective, training, save=energy.save_pretrained, label=name)


def make_objective(recipe: ObjectiveRecipe, data: ContrastiveData, validation: ContrastiveData) -> PairObjective:
    """What the energy is trained to minimise."""
    if recipe.loss == "nce":
        return NoiseContrastive(data, validation, recipe.mining)
    return Ranking(data, validation, recipe.mining, recipe.margin)


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


def _some_pairs(context: RunContext, data: ContrastiveData, pairs: int | None) -> ContrastiveData:
    """A random `pairs` of the pairs; a smaller number's are among those of a larger one, for all energies."""
    if pairs is None:
        return data
    generator = torch.Generator().manual_seed(stage_seed(context.recipe.seed, "pairs"))
    return data.select(torch.randperm(len(data), generator=generator)[:pairs])


def make_energy(context: RunContext, recipe: TrainedRecipe, seed: int) -> EnergyModel:
    """The energy before its training: zero everywhere, or what it was when it is trained on."""
    if isinstance(recipe, RefreshedEnergyRecipe):
        return context.energy(recipe.of)
    if isinstance(recipe, StatesEnergyRecipe):
        return StatesEnergy.for_lm(
            context.lm, recipe.layers, hidden_units=recipe.hidden_units, dropout=recipe.dropout, seed=seed
        )
    if isinstance(recipe, LinearEnergyRecipe | BiLSTMEnergyRecipe):
        return make_token_energy(recipe, context.lm.vocab_size, seed)
    lora = None if recipe.lora is None else Lora(**recipe.lora.model_dump())
    if isinstance(recipe, EncoderEnergyRecipe):
        return TransformerEnergy.from_encoder(recipe.source, pooling=recipe.pooling, lora=lora, seed=seed)
    tables = None if recipe.ngram_tables is None else NgramTables(**recipe.ngram_tables.model_dump())
    options: dict[str, Any] = {"pooling": recipe.pooling, "lora": lora, "ngram_tables": tables, "seed": seed}
    if recipe.origin == "masked_lm":
        return TransformerEnergy.from_masked_lm(context.folder / "masked_lm", **options)
    return TransformerEnergy.from_causal_lm(context.lm, causal=recipe.kind == "unit", **options)


def make_token_energy(recipe: TokenRecipe, vocab_size: int, seed: int) -> EnergyModel:
    """An energy over this many tokens, before its training."""
    if isinstance(recipe, LinearEnergyRecipe):
        return LinearEnergy(LinearEnergyConfig(vocab_size=vocab_size))
    shape = recipe.model_dump(include={"embedding_size", "hidden_size", "num_layers", "dropout"})
    return BiLSTMEnergy(BiLSTMEnergyConfig(vocab_size=vocab_size, **shape), seed)


def _all_features(data: ContrastiveData) -> torch.Tensor:
    """People's and the LM's features together: (N * (1 + K), F)."""
    assert data.features is not None
    assert data.negative_features is not None
    return torch.cat([data.features, data.negative_features.flatten(0, 1)])
