"""`lexergy run`: any recipe, stage by stage, and its report."""

from pathlib import Path

from lexergy.cli.engines import in_parts
from lexergy.cli.options import Json, RecipeName, RecipeOut
from lexergy.cli.summary import run_and_show


@in_parts
def run(
    recipe: RecipeName,
    out: RecipeOut = None,
    as_json: Json = False,
) -> None:
    """Run a recipe, stage by stage, and write its report.

    The stages are windows, language model, negatives, energies, perplexity and samples. A finished
    stage is never redone; a run that was stopped goes on where it was when the command is given again.

    Examples:

    \b
      lexergy run from-scratch
      lexergy run smollm2-bit --out runs/bit --json > bit.json
    """
    from lexergy.recipes.loader import load_recipe
    from lexergy.recipes.residual import ResidualRecipe

    loaded = load_recipe(recipe, ResidualRecipe)
    run_and_show(loaded, out or Path("runs") / loaded.name, as_json=as_json)
