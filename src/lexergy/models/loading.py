"""Load a causal LM and its tokenizer from a resolved folder, with errors people can act on."""

from pathlib import Path
from typing import NamedTuple

import torch
from safetensors import SafetensorError
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from lexergy.errors import LexergyError
from lexergy.models import gated_conv  # noqa: F401 (registers itself with transformers)
from lexergy.models.sources import resolve_causal_lm

_TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "vocab.json", "tokenizer.model")


class LoadedLM(NamedTuple):
    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase | None


def load_causal_lm(source: str, *, dtype: str = "float32") -> LoadedLM:
    """The model and, where it has one, the tokenizer of a name, a folder or a GGUF file."""
    folder = Path(resolve_causal_lm(source).folder)
    try:
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=getattr(torch, dtype))
    except (OSError, SafetensorError, ValueError, KeyError, RuntimeError) as error:
        raise LexergyError(
            f"the model in {folder} cannot be read ({_first_line(error)}); expected config.json and whole "
            "safetensors weights; fetch or save it again."
        ) from error
    has_tokenizer = any((folder / name).is_file() for name in _TOKENIZER_FILES)
    return LoadedLM(model, AutoTokenizer.from_pretrained(folder) if has_tokenizer else None)


def _first_line(error: Exception) -> str:
    lines = str(error).splitlines()
    return lines[0][:160] if lines else type(error).__name__
