"""`lexergy run`: any recipe, stage by stage, and its report."""

from pathlib import Path
from typing import Annotated

import typer

from lexergy.cli.options import Json
from lexergy.cli.summary import run_and_show


def run(
    recipe: Annotated[str, typer.Argument(metavar="RECIPE.yaml", help="The recipe to run.")],
    folder: Annotated[
        Path | None, typer.Option(help="Where the run lives.", show_default="runs/<the recipe's name>")
    ] = None,
    as_json: Json = False,
) -> None:
    """Run a recipe, stage by stage, and write its report.

    The stages are windows, language model, negatives, energies, perplexity and samples. A finished
    stage is never redone; a stopped run goes on where it was when the command is given again.

    Examples:

    \b
      lexergy run from-scratch
      lexergy run smollm2-bit --folder runs/bit --json > bit.json
    """
    from lexergy.recipes.loader import load_recipe
    from lexergy.recipes.residual import ResidualRecipe

    loaded = load_recipe(recipe, ResidualRecipe)
    run_and_show(loaded, folder or Path("runs") / loaded.name, as_json=as_json)
