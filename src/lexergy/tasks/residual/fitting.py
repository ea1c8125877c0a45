"""The stage of a linear head: its penalties by cross-validation over documents, its weights from all pairs."""

from dataclasses import asdict
from itertools import product
from typing import Any, NamedTuple

import torch
from torch import Tensor

from lexergy.core.estimation.findings import std_error
from lexergy.core.linear_heads import PairLoss, fit_linear_head, folds_of, held_out_energies, learning_curve
from lexergy.core.losses import nce_loss, nce_metrics, ranking_nce_loss
from lexergy.models.energies import FeatureEnergy, ReaderEnergy
from lexergy.progress import progress_bar
from lexergy.recipes.fitted_energies import FittedEnergyRecipe
from lexergy.runs.stages import Facts, Stage
from lexergy.runs.workspace import OpenStage
from lexergy.tasks.residual.context import RunContext
from lexergy.tasks.residual.energies import RunOrigins, chosen_pairs, make_energy
from lexergy.tasks.residual.negatives import SPLITS_WITH_NEGATIVES, contrastive_data
from lexergy.tasks.residual.reading import read_pairs
from lexergy.training.objectives.contrastive import ContrastiveData

LOSSES: dict[str, PairLoss] = {"nce": nce_loss, "ranking-nce": ranking_nce_loss}
SHARES = (0.25, 0.5, 1.0)  # of the pairs, for the learning curve


class _Pairs(NamedTuple):
    features: Tensor  # (N, 1 + K, F), people's first
    documents: list[str]  # N


def fit_energy(context: RunContext, name: str, negatives: Stage, stage: OpenStage) -> Facts:
    """Fit one head to features of all pairs; the loss that is told is of pairs whose documents it was not fitted to."""
    recipe = context.recipe.energies[name]
    assert isinstance(recipe, FittedEnergyRecipe)
    energy = make_energy(recipe, RunOrigins(context), stage.seed)
    assert isinstance(energy, FeatureEnergy)
    pairs = _pairs(context, negatives, energy, recipe.pairs, stage)
    energy.fit_standardisation(pairs.features)
    features, loss = energy.standardised(pairs.features), LOSSES[recipe.loss]
    folds = folds_of(pairs.documents, recipe.folds, stage.seed)
    grid = [dict(zip(recipe.penalties, values, strict=True)) for values in product(*recipe.penalties.values())]
    tried: list[dict[str, Any]] = []
    with progress_bar(name, len(grid), enabled=stage.progress) as bar:
        for penalties in grid:
            held_out = held_out_energies(features, _penalty(energy, penalties), folds, loss)
            tried.append({**penalties, "loss": float(_loss(loss, held_out))})
            bar.advance(loss=tried[-1]["loss"])
    lowest, best = min(zip((trial["loss"] for trial in tried), grid, strict=True), key=lambda trial: trial[0])
    penalty = _penalty(energy, best)
    energy.set_linear_head(fit_linear_head(features, penalty, loss))
    energy.save_pretrained(stage.folder)
    held_out = held_out_energies(features, penalty, folds, loss).double()
    curve = learning_curve(features, penalty, folds, SHARES, stage.seed, loss)
    return {
        "pairs": len(features),
        "documents": len(set(pairs.documents)),
        "penalties": best,
        "tried": tried,
        "validation": {
            "loss": lowest,
            "std_error": _document_error(held_out, pairs.documents, loss),
            **asdict(nce_metrics(held_out[:, 0], held_out[:, 1:])),
        },
        "learning_curve": dict(zip(map(str, SHARES), curve, strict=True)),
    }


def _pairs(
    context: RunContext, negatives: Stage, energy: FeatureEnergy, wanted: int | None, stage: OpenStage
) -> _Pairs:
    """Training pairs, so many as are wanted, and all of validation: nothing is stopped early on them."""
    train, validation = contrastive_data(context, negatives, energy.features)
    documents = [context.windows[split].document_ids for split in SPLITS_WITH_NEGATIVES]
    rows = chosen_pairs(context, len(train), wanted)
    parts = [train.select(rows), validation]
    if isinstance(energy, ReaderEnergy):
        features = read_pairs(energy.bind(context.tokenizer), parts, stage)
    else:
        features = torch.cat([_stored(data) for data in parts])
    return _Pairs(features, [*(documents[0][row] for row in rows.tolist()), *documents[1]])


def _stored(data: ContrastiveData) -> Tensor:  # (N, 1 + K, F)
    assert data.features is not None
    assert data.negative_features is not None
    return torch.cat([data.features.unsqueeze(1), data.negative_features], 1)


def _penalty(energy: FeatureEnergy, penalties: dict[str, float]) -> Tensor:  # (F,)
    """That of each group on all of its features."""
    return torch.cat([energy.mean.new_full((size,), penalties[group]) for group, size in energy.groups.items()])


def _loss(loss: PairLoss, energies: Tensor) -> Tensor:  # (N, 1 + K) -> ()
    return loss(energies[:, 0], energies[:, 1:])


def _document_error(energies: Tensor, documents: list[str], loss: PairLoss) -> float:
    """The standard error of the mean loss over documents."""
    losses = torch.stack([_loss(loss, pair.unsqueeze(0)) for pair in energies])  # (N,)
    return std_error(losses.numpy(), groups=documents)
