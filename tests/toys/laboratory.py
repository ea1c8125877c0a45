"""A laboratory of toy corpora, in which everything is trained in seconds."""

from pathlib import Path
from typing import Any

import pytest

from lexergy.recipes.real_or_fake import LaboratoryRecipe
from lexergy.tasks.real_or_fake.laboratory import open_laboratory
from toys import recipes
from toys.corpora import write_corpus

TRAINING = recipes.TRAINING | {"max_steps": 4, "evaluate_every": 2, "checkpoint_every": 2}
TRANSFORMER = recipes.TRANSFORMER | {"max_length": 24, "training": TRAINING}
CONVOLUTIONS = {key: value for key, value in TRANSFORMER.items() if key != "num_heads"} | {"architecture": "gated_conv"}
BILSTM = {"kind": "bilstm", "embedding_size": 4, "hidden_size": 4, "num_layers": 1, "training": TRAINING}
RANKING = {"objective": {"loss": "ranking"}}


def laboratory_recipe(folder: Path) -> dict[str, Any]:
    """Two corpora, and generators and energies of the names that the studies ask for."""
    sources = {name: write_corpus(folder / name, documents=14, sentences=15) for name in ("sotu", "wikitext")}
    linear = {"kind": "linear", "training": TRAINING}
    unit = {"kind": "unit", "from": "lm", "training": TRAINING}
    return {
        "name": "toy",
        "corpora": {name: {"source": str(path), "validation": 0.2, "test": 0.2} for name, path in sources.items()},
        "tokenizer": {"vocab_size": 320, "corpora": list(sources)},
        "windows": {"length": 16, "stride": 6, "contexts": [8, 12], "train": 40, "validation": 12, "test": 24},
        "negatives": {"per_prefix": 2, "top_k": 10},
        "generators": {
            "transf-big": TRANSFORMER,
            "transf-small": {**TRANSFORMER, "hidden_size": 8},
            "conv": CONVOLUTIONS,
        },
        "start_from": "transf-big",
        "energies": {
            "linear": linear,
            "linear-ranking": {**linear, **RANKING},
            "bilstm-small": BILSTM,
            "bilstm-small-all": {**BILSTM, "objective": {"mining": "all"}},
            "bilstm-small-hardest": {**BILSTM, "objective": {"mining": "hardest"}},
            "bilstm-small-ranking": {**BILSTM, **RANKING},
            "bilstm-big": {**BILSTM, "num_layers": 2},
            "unit": unit,
            "unit-ranking": {**unit, **RANKING},
            "bit": {**unit, "kind": "bit"},
        },
    }


@pytest.fixture(scope="session")
def toy_laboratory(tmp_path_factory):
    folder = tmp_path_factory.mktemp("laboratory")
    recipe = LaboratoryRecipe.model_validate(laboratory_recipe(folder))
    with open_laboratory(recipe, folder / "toy", progress=False) as laboratory:
        yield laboratory
