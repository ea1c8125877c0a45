"""`lexergy pretrain`: cloze models on one's own text, from scratch or on a pretrained encoder."""

from pathlib import Path
from typing import TYPE_CHECKING

from lexergy.cli.options import Json, RecipeName, RecipeOut
from lexergy.cli.render import lexergy_command, print_json, print_lines, print_table

if TYPE_CHECKING:
    from lexergy.tasks.cloze.pretraining import PretrainResult

WATCHED = {
    "loss": "loss",
    "classifier_loss": "classifier loss",
    "noise_loss": "noise loss",
    "accuracy": "accuracy",
    "log_z": "log Z",
}


def pretrain(
    recipe: RecipeName,
    out: RecipeOut = None,
    as_json: Json = False,
) -> None:
    """Pre-train Electric and its relatives on packed text.

    A finished model is never trained again; a training that was stopped goes on where it was when the command is
    given again. Each model gets a folder of its own, ready for `lexergy score`, `rescore` and `explain`.

    Examples:

    \b
      lexergy pretrain electric-cpu
      lexergy pretrain my-electric.yaml --out runs/mine
    """
    from lexergy.recipes.cloze import PretrainingRecipe
    from lexergy.recipes.loader import load_recipe

    loaded = load_recipe(recipe, PretrainingRecipe)
    from lexergy.tasks.cloze.pretraining import (
        pretrain as train_models,  # seconds to import: after what may be mistaken
    )

    result = train_models(loaded, out or Path("runs") / loaded.name)
    if as_json:
        print_json(
            {
                "folder": result.folder,
                "tokens": result.tokens,
                "models": {name: {"seconds": stage.seconds, **stage.facts} for name, stage in result.models.items()},
            }
        )
    else:
        _print(result)


def _print(result: "PretrainResult") -> None:
    facts = {name: stage.facts for name, stage in result.models.items()}
    rows = [
        ("parameters", *(f"{model['parameters'] / 1e6:.2f} M" for model in facts.values())),
        ("steps", *(str(model["steps"]) for model in facts.values())),
        ("tokens read", *(f"{model['tokens_seen'] / 1e6:.2f} M" for model in facts.values())),
    ]
    for key, label in WATCHED.items():
        values = [_number(model["validation"].get(key)) for model in facts.values()]
        if any(values):
            rows.append((label, *values))
    print_table("Pre-trained models, on held-out text", ("", *facts), rows)
    shown = next((name for name, model in facts.items() if model["kind"] == "electric"), next(iter(facts)))
    folder = result.folder / shown
    print_lines(
        "Next:",
        f"  {lexergy_command()} score {folder} FILE",
        f"  {lexergy_command()} explain {folder} --text 'some words'",
    )


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"
