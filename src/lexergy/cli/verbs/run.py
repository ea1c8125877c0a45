"""`lexergy run`: any recipe, stage by stage, and its report."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lexergy.cli.engines import in_parts
from lexergy.cli.options import Json, RecipeName, RecipeOut, duration
from lexergy.cli.summary import run_and_show

if TYPE_CHECKING:
    from lexergy.recipes.residual import ResidualRecipe

Budget = Annotated[
    str | None,
    typer.Option(
        "--budget",
        metavar="TIME",
        help="Add negatives for at most so long (90s, 60m, 2h), or until more are not worth it; needs a fitted energy.",
        show_default="the recipe's, or all windows",
        callback=duration,
    ),
]


@in_parts
def run(
    recipe: RecipeName,
    out: RecipeOut = None,
    budget: Budget = None,
    as_json: Json = False,
) -> None:
    """Run a recipe, stage by stage, and write its report.

    The stages are windows, language model, negatives, energies, perplexity and samples. A finished
    stage is never redone; a run that was stopped goes on where it was when the command is given again.

    Examples:

    \b
      lexergy run from-scratch
      lexergy run smollm2-bit --out runs/bit --json > bit.json
      lexergy run smollm2-read-by-minilm --budget 60m
    """
    from lexergy.recipes.loader import load_recipe
    from lexergy.recipes.residual import ResidualRecipe

    loaded = load_recipe(recipe, ResidualRecipe)
    if budget is not None:
        loaded = _with_budget(loaded, budget)
    run_and_show(loaded, out or Path("runs") / loaded.name, as_json=as_json)


def _with_budget(recipe: "ResidualRecipe", budget: str) -> "ResidualRecipe":
    from lexergy.recipes.loader import checked

    negatives = {**recipe.negatives.model_dump(), "budget": budget}
    return checked(type(recipe), **{**recipe.plain(), "negatives": negatives, "engine": recipe.engine})
