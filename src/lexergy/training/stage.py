"""A training as a stage of a run: train, save on the first process, and say how it went."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from torch import nn

from lexergy.models.loading.bars import without_bars
from lexergy.recipes.sections.training import TrainingRecipe
from lexergy.runs.processes import is_main_process
from lexergy.runs.stages import Facts, stage_seed
from lexergy.runs.workspace import OpenStage
from lexergy.training.checkpoints import trainable_parameters
from lexergy.training.loop import train
from lexergy.training.objectives.contrastive import Objective


def train_into(
    stage: OpenStage,
    model: nn.Module,
    objective: Objective,
    recipe: TrainingRecipe,
    *,
    save: Callable[[Path], Any],
    label: str,
    rate_factors: Mapping[str, float] | None = None,
) -> Facts:
    """Train `model` and `save` it into the stage's folder; all processes train, the first one saves.

    The facts hold the model's size before it is saved, the steps, the step whose weights were kept, and the validation
    metrics there.
    """
    sizes = {
        "parameters": sum(weight.numel() for weight in model.parameters()),
        "trained_parameters": sum(weight.numel() for weight in trainable_parameters(model).values()),
    }
    result = train(
        model, objective, recipe, stage.folder, progress=stage.progress, label=label, rate_factors=rate_factors
    )
    if is_main_process():
        with without_bars():
            save(stage.folder)
    return {**sizes, "steps": result.steps, "best_step": result.best_step, "validation": result.validation}


def seeded(recipe: TrainingRecipe, stage: OpenStage) -> TrainingRecipe:
    """The training with a seed of its own, made of the stage's and of the one that the recipe gives it."""
    return recipe.model_copy(update={"seed": stage_seed(stage.seed, f"training {recipe.seed}")})
