"""How frequent each token is in the text that a model was trained on, kept beside its weights; or else each word."""

import re
import string
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from lexergy.files import atomic_path, reading
from lexergy.models.scoring.ngram_lm import NgramLM

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
    if not path.is_file():
        return None
    with reading(path):
        return load_file(path)["log_frequencies"]


class WordFrequencies:
    """How frequent words are in general American English, by the unigrams of the packaged `trigram` LM.

    For models from elsewhere: what text they were trained on is not known, but a common word is common there too.
    """

    def __init__(self) -> None:
        self._lm = _packaged()

    def of_tokens(self, text: str, spans: Sequence[tuple[int, int]]) -> list[float]:
        """log p(w) of each word at the token that it begins in, 0 at all other tokens."""
        values = [0.0] * len(spans)
        token = 0
        for match in re.finditer(r"\S+", text):
            while token < len(spans) and spans[token][1] <= match.start():
                token += 1
            if token < len(spans):
                word = match.group().strip(string.punctuation).lower()
                values[token] += self._lm.log_frequency(word or match.group())
        return values


@cache
def _packaged() -> NgramLM:
    return NgramLM.packaged()
