"""The stage that fits what particles are drawn and resampled by: a tilt and a twist for each energy."""

from typing import Any

import torch
from safetensors.torch import load_file, save_file

from lexergy.core.estimation.proposals import TokenTilt
from lexergy.core.estimation.smc import Resampling, Twist, fit_twist
from lexergy.models.joint.smc import energies_while_written
from lexergy.models.joint.tilts import fit_tilt
from lexergy.progress import counted
from lexergy.recipes.residual import ResidualRecipe
from lexergy.runs.stages import Facts, stage_seed
from lexergy.runs.workspace import OpenStage
from lexergy.tasks.residual.context import RunContext

STEERING = "steering"


@torch.no_grad()
def fit_steering(context: RunContext, stage: OpenStage) -> Facts:
    """Fit both to samples of validation prefixes; the twist to texts drawn by the tilt, from other random numbers."""
    recipe = context.recipe.steering
    assert recipe is not None
    prefixes = context.windows["validation"].prefixes[: recipe.prefixes]
    settings: dict[str, Any] = {
        "length": context.recipe.windows.continuation,
        "num_samples": recipe.samples,
        "prefix_ids": range(len(prefixes)),
    }
    fitted: Facts = {}
    names = context.recipe.steered_energies
    tokens = 2 * len(names) * len(prefixes) * recipe.samples * context.recipe.windows.continuation
    with counted("tokens", tokens, stage.progress):
        for name in names:
            joint = context.joint(name)
            tilt, explained = fit_tilt(joint, prefixes, seed=stage_seed(stage.seed, "tilt"), **settings)
            seen = energies_while_written(joint, prefixes, seed=stage_seed(stage.seed, "twist"), tilt=tilt, **settings)
            save_file({**fit_twist(*seen)._asdict(), **tilt._asdict()}, stage.folder / _file(name))
            weights = seen.log_ratio[..., -1] - seen.final  # (B, n)
            fitted[name] = {"explained": explained, "variance_of_log_weights": float(weights.var(1).mean())}
    return {"prefixes": len(prefixes), "energies": fitted}


def is_steered(recipe: ResidualRecipe, name: str) -> bool:
    """Whether a run of the recipe fits a tilt and a twist for this energy."""
    return recipe.steering is not None and name in recipe.steered_energies


def resampling_of(context: RunContext, name: str, length: int, *, truncated: bool = False) -> Resampling:
    """How particles of one energy are drawn and resampled: as fitted, where texts are those that it was fitted to."""
    recipe = context.recipe.steering
    fitted = is_steered(context.recipe, name) and length == context.recipe.windows.continuation
    if recipe is None or not fitted or truncated:
        return Resampling()
    tensors = load_file(context.folder / STEERING / _file(name))
    twist = Twist(**{field: tensors[field] for field in Twist._fields})
    tilt = TokenTilt(**{field: tensors[field] for field in TokenTilt._fields})
    return Resampling(recipe.every, recipe.below, twist, tilt)


def _file(name: str) -> str:
    return f"{name}.safetensors"
