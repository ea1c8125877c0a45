"""The learning rate from step to step."""

import math

from lexergy.recipes.sections.training import TrainingRecipe


def learning_rate_at(recipe: TrainingRecipe, step: int) -> float:
    """The rate of step 0, 1, ..., max_steps - 1; the last warm-up step has the full rate.

    lr * (step + 1) / warmup, then with u = (step - warmup) / (max_steps - warmup):
    lr * (1 + cos(pi u)) / 2 (Loshchilov & Hutter 2017), lr * (1 - u), or lr.
    """
    if step < recipe.warmup_steps:
        return recipe.learning_rate * (step + 1) / recipe.warmup_steps
    if recipe.schedule == "constant":
        return recipe.learning_rate
    elapsed = (step - recipe.warmup_steps) / (recipe.max_steps - recipe.warmup_steps)
    remaining = 1 - elapsed if recipe.schedule == "linear" else (1 + math.cos(math.pi * elapsed)) / 2
    return recipe.learning_rate * remaining
