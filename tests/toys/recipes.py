"""A recipe that trains everything in seconds, and the run made of it."""

from pathlib import Path

import pytest

from lexergy.recipes.residual import ResidualRecipe

TRAINING = {"learning_rate": 0.01, "max_steps": 12, "batch_size": 8, "evaluate_every": 4, "checkpoint_every": 3}
SHAPE = {"hidden_size": 16, "num_layers": 1, "num_heads": 2}
TRANSFORMER = {**SHAPE, "max_length": 32, "training": TRAINING}
ENERGIES = {
    "states": {"kind": "states", "layers": [0, 1], "hidden_units": 4, "dropout": 0.1, "training": TRAINING},
    "unit": {"kind": "unit", "from": "lm", "lora": {"rank": 2, "alpha": 4}, "training": TRAINING},
    "bit": {
        "kind": "bit",
        "from": "masked_lm",
        "ngram_tables": {"orders": [2], "buckets": 64, "width": 4},
        "training": TRAINING,
    },
}


def residual_recipe(corpus: Path, **changes) -> dict:
    recipe = {
        "name": "tiny",
        "seed": 3,
        "corpus": {"source": str(corpus), "validation": 0.2, "test": 0.2},
        "windows": {"prefix": 6, "continuation": 5, "train": 70, "validation": 20, "test": 12},
        "lm": {"train": {"vocab_size": 300, **TRANSFORMER}},
        "masked_lm": TRANSFORMER,
        "negatives": {"per_prefix": 2},
        "energies": ENERGIES,
        "perplexity": {"samples": 40, "windows": 10},
        "generation": {"prompts": ["the people shall", "our union"], "candidates": 30, "max_new_tokens": 5},
    }
    return recipe | changes


@pytest.fixture(scope="session")
def tiny_recipe(tiny_corpus) -> ResidualRecipe:
    return ResidualRecipe.model_validate(residual_recipe(tiny_corpus))


@pytest.fixture(scope="session")
def finished_run(tiny_recipe, tmp_path_factory) -> Path:
    """The folder of an uninterrupted run; tests copy it before they change anything."""
    from lexergy.tasks.residual.run import run

    folder = tmp_path_factory.mktemp("runs") / "tiny"
    run(tiny_recipe, folder, progress=False)
    return folder
