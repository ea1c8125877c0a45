"""The stage of a linear head: its penalties by cross-validation over documents, its weights from all pairs."""

from dataclasses import asdict
from itertools import product
from typing import Any, NamedTuple

import torch
from torch import Tensor

from lexergy.core.estimation.findings import std_error
from lexergy.core.fitting.learning_curves import pair_losses
from lexergy.core.fitting.linear_heads import PairLoss, fit_linear_head, folds_of, held_out_energies, learning_curve
from lexergy.core.losses import nce_loss, nce_metrics, ranking_nce_loss
from lexergy.models.energies import FeatureEnergy, ReaderEnergy
from lexergy.progress import progress_bar
from lexergy.recipes.sections.fitted_energies import FittedEnergyRecipe
from lexergy.runs.stages import Facts, Stage
from lexergy.runs.workspace import OpenStage, stage_store
from lexergy.tasks.residual.context import RunContext
from lexergy.tasks.residual.energies import RunOrigins, make_energy
from lexergy.tasks.residual.negatives import chosen_pairs, split_pairs
from lexergy.tasks.residual.reading import FEATURES_FOLDER, read_pairs
from lexergy.training.objectives.contrastive import ContrastiveData

LOSSES: dict[str, PairLoss] = {"nce": nce_loss, "ranking-nce": ranking_nce_loss}
SHARES = (0.125, 0.25, 0.5, 1.0)  # of the pairs, for the learning curve


class Pairs(NamedTuple):
    """What a head is fitted to."""

    features: Tensor  # (N, 1 + K, F), people's first
    documents: list[str]  # N


class CrossValidated(NamedTuple):
    """Standardised features, and the penalties that are best on documents held out."""

    features: Tensor  # (N, 1 + K, F)
    folds: Tensor  # (N,)
    penalties: dict[str, float]  # by group of features
    penalty: Tensor  # (F,)
    tried: list[dict[str, Any]]
    loss: float


def fit_energy(context: RunContext, name: str, negatives: Stage, stage: OpenStage) -> Facts:
    """Fit one head to features of all pairs; the loss that is told is of pairs whose documents it was not fitted to."""
    recipe, energy = fitted_energy(context, name, stage)
    pairs = _pairs(context, negatives, energy, recipe.pairs, stage)
    chosen, loss = cross_validate(energy, recipe, pairs, name, stage), LOSSES[recipe.loss]
    features, penalty, folds = chosen.features, chosen.penalty, chosen.folds
    energy.set_linear_head(fit_linear_head(features, penalty, loss))
    energy.save_pretrained(stage.folder)
    held_out = held_out_energies(features, penalty, folds, loss).double()
    curve = learning_curve(features, penalty, folds, SHARES, stage.seed, loss)
    return {
        "pairs": len(features),
        "documents": len(set(pairs.documents)),
        "penalties": chosen.penalties,
        "tried": chosen.tried,
        "validation": {
            "loss": chosen.loss,
            "std_error": std_error(pair_losses(held_out, loss).numpy(), groups=pairs.documents),
            **asdict(nce_metrics(held_out[:, 0], held_out[:, 1:])),
        },
        "learning_curve": dict(zip(map(str, SHARES), curve, strict=True)),
    }


def fitted_energy(context: RunContext, name: str, stage: OpenStage) -> tuple[FittedEnergyRecipe, FeatureEnergy]:
    """What the recipe says of a head that is fitted, and the head before that."""
    recipe = context.recipe.energies[name]
    assert isinstance(recipe, FittedEnergyRecipe)
    energy = make_energy(recipe, RunOrigins(context), stage.seed)
    assert isinstance(energy, FeatureEnergy)
    return recipe, energy


def cross_validate(
    energy: FeatureEnergy, recipe: FittedEnergyRecipe, pairs: Pairs, label: str, stage: OpenStage
) -> CrossValidated:
    """Choose, of the recipe's penalties, those of the least loss on documents held out."""
    energy.fit_standardisation(pairs.features)
    features, loss = energy.standardised(pairs.features), LOSSES[recipe.loss]
    folds = folds_of(pairs.documents, recipe.folds, stage.seed)
    grid = [dict(zip(recipe.penalties, values, strict=True)) for values in product(*recipe.penalties.values())]
    tried: list[dict[str, Any]] = []
    with progress_bar(label, len(grid), enabled=stage.progress) as bar:
        for penalties in grid:
            held_out = held_out_energies(features, _penalty(energy, penalties), folds, loss)
            tried.append({**penalties, "loss": float(loss(held_out[:, 0], held_out[:, 1:]))})
            bar.advance(loss=tried[-1]["loss"])
    lowest, best = min(zip((trial["loss"] for trial in tried), grid, strict=True), key=lambda trial: trial[0])
    return CrossValidated(features, folds, best, _penalty(energy, best), tried, lowest)


def _pairs(context: RunContext, negatives: Stage, energy: FeatureEnergy, wanted: int | None, stage: OpenStage) -> Pairs:
    """Training pairs, so many as are wanted, and all of validation: nothing is stopped early on them."""
    (train, documents), (validation, others) = split_pairs(context, negatives, energy.features)
    rows = chosen_pairs(context, len(train), wanted)
    features = pair_features(context, energy, [train.select(rows), validation], stage, progress=stage.progress)
    return Pairs(features, [*(documents[row] for row in rows.tolist()), *others])


def pair_features(
    context: RunContext,
    energy: FeatureEnergy,
    parts: list[ContrastiveData],
    stage: Stage | OpenStage,
    *,
    progress: bool,
) -> Tensor:  # (N, 1 + K, F)
    """The LM's own states, which lie beside the negatives; or what a reader makes of the texts, kept by the stage."""
    if isinstance(energy, ReaderEnergy):
        store = stage_store(stage, FEATURES_FOLDER)
        return read_pairs(energy.bind(context.tokenizer), parts, store, progress=progress)
    return torch.cat([_stored(data) for data in parts])


def _stored(data: ContrastiveData) -> Tensor:  # (N, 1 + K, F)
    assert data.features is not None
    assert data.negative_features is not None
    return torch.cat([data.features.unsqueeze(1), data.negative_features], 1)


def _penalty(energy: FeatureEnergy, penalties: dict[str, float]) -> Tensor:  # (F,)
    """That of each group on all of its features."""
    return torch.cat([energy.mean.new_full((size,), penalties[group]) for group, size in energy.groups.items()])
