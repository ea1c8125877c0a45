"""Which engine computes shards: the caller's, or the recipe's."""

from collections.abc import Iterator
from contextlib import contextmanager

from lexergy.recipes.sections.engine import EngineRecipe
from lexergy.runs.engines import Engine, InPlace, current_engine, using_engine


def open_engine(recipe: EngineRecipe) -> Engine:
    """The engine that a recipe names."""
    if recipe.kind == "in-place":
        return InPlace()
    from lexergy.runs.ray_engine import RayEngine  # an extra

    return RayEngine(recipe.actors, recipe.cpus, recipe.gpus)


@contextmanager
def using_recipe(recipe: EngineRecipe) -> Iterator[None]:
    """Compute all shards as a recipe says, unless the caller said how; this process needs no saying."""
    if current_engine() is not None or recipe.kind == "in-place":
        yield
        return
    with using_engine(open_engine(recipe)):
        yield
