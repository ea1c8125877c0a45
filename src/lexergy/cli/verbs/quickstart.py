"""`lexergy quickstart`: the whole story on the default corpus."""

from pathlib import Path

from lexergy.cli.engines import in_parts
from lexergy.cli.options import Json, Out
from lexergy.cli.summary import run_and_show


@in_parts
def quickstart(
    out: Out = Path("runs/quickstart"),
    as_json: Json = False,
) -> None:
    """The whole story on the default corpus, and a report.

    Trains an energy on the residual of SmolLM2-135M-Instruct (4 bits), which stays frozen, and measures what it adds.
    Takes four to twelve minutes on two cores the first time; afterwards the command only reads the result. If it is
    stopped, give it again: it goes on where it was.

    Examples:

    \b
      lexergy quickstart
      lexergy quickstart --out /tmp/quickstart --json
    """
    from lexergy.recipes.loader import load_recipe
    from lexergy.recipes.residual import ResidualRecipe

    run_and_show(load_recipe("quickstart", ResidualRecipe), out, as_json=as_json)
