"""Recipes of search-aware training that are over in seconds, and the settings of studies on them."""

from pathlib import Path
from typing import Any

import yaml

from toys.seq2seq import toy_tagged

SETTINGS = {
    "beam": 2,
    "alpha": 10.0,
    "last_alpha": 10.0,
    "epochs": 0.5,
    "learning_rate": 0.01,
    "local_rates": (0.01,),
    "global_rates": (0.01,),
    "control_rates": (0.01,),
    "unidirectional_local_rates": (0.01,),
    "half_at": (0.75,),
    "lengths": (2, 3, 4),
    "sentences": 3,
    "points": 21,
    "shortest": 4,
    "radius": 3.0,
    "alphas": (1.0, 100.0),
}
LEARNING = {"epochs": 2, "learning_rate": 0.02, "batch_size": 16, "evaluations_per_epoch": 1}


def toy_recipe(kind: str, folder: Path) -> Path:
    """Of `tagging`, `ner` or `translation`."""
    sentences, labels = toy_tagged(120)
    if kind == "ner":
        labels = [["B-" + label[0] if label[0] != "V" else "O" for label in row] for row in labels]
    data = folder / f"{kind}.txt"
    if kind == "translation":
        rows = [
            f"{' '.join(words)}\t{' '.join(word.upper() for word in words)}"
            for words in dict.fromkeys(map(tuple, sentences))
        ]
        data.write_text("\n".join(rows), encoding="utf-8")
        described: dict[str, Any] = {"kind": "translation", "source": str(data), "validation": 0.2, "test": 0.2}
    else:
        blocks = ["\n".join(map(" ".join, zip(*pair, strict=True))) for pair in zip(sentences, labels, strict=True)]
        data.write_text("\n\n".join(blocks) + "\n", encoding="utf-8")
        described = {"kind": "tagging", "source": str(data), "share": 0.2}
    soft = {"kind": "soft-beam", "start": "cross-entropy", "beam": 2, "candidates": None, "learning": LEARNING}
    rival = {"start": "self-normalised", "beam": 2, "learning": LEARNING}
    recipe = {
        "name": f"toy-{kind}",
        "data": described,
        "model": {
            "features": {"word": 8},
            "symbol_size": 4,
            "encoder_size": 8,
            "decoder_size": 8,
            "minimum": 1,
        },
        "objectives": {
            "cross-entropy": {"kind": "cross-entropy", "learning": LEARNING},
            "self-normalised": {"kind": "cross-entropy", "self_normalisation": 0.05, "learning": LEARNING},
            "scheduled": {"kind": "scheduled", "alpha": {"first": 1, "last": 10}, "learning": LEARNING},
            "soft-beam": soft,
            "beam-crf": {"kind": "beam-crf", **rival},
            "beam-search-optimisation": {"kind": "beam-search-optimisation", **rival},
        },
        "evaluation": {"validation_sentences": 10},
    }
    path = folder / f"toy-{kind}.yaml"
    path.write_text(yaml.safe_dump(recipe), encoding="utf-8")
    return path
