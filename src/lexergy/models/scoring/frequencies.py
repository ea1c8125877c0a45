"""How frequent each token is in the text that a model was trained on, kept beside its weights."""

from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from lexergy.files import atomic_path

FREQUENCIES_FILE = "frequencies.safetensors"


def log_frequencies(tokens: Tensor, vocab_size: int) -> Tensor:  # (T,) -> (V,)
    """log p(v) of the tokens of a text, each counted once more, so that none is impossible."""
    return (torch.bincount(tokens, minlength=vocab_size) + 1.0).log().log_softmax(0)


def save_frequencies(folder: Path, distribution: Tensor) -> None:  # (V,)
    with atomic_path(folder / FREQUENCIES_FILE) as partial:
        save_file({"log_frequencies": distribution.contiguous()}, partial)


def load_frequencies(folder: Path) -> Tensor | None:  # (V,)
    """The distribution that lies beside a model, or None: models from elsewhere have none."""
    path = folder / FREQUENCIES_FILE
    return load_file(path)["log_frequencies"] if path.is_file() else None
