"""Load a causal or masked LM and its tokenizer from a resolved folder, with errors people can act on."""

import json
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from lexergy.errors import LexergyError
from lexergy.models.architectures import gated_conv  # noqa: F401 (registers itself with transformers)
from lexergy.models.loading.sources import first_line, resolve_causal_lm, resolve_encoder
from lexergy.models.loading.tokenizer import load_tokenizer

_STARTED = "gemma"  # all of this family are lost without their BOS token
_TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "vocab.json", "tokenizer.model")


class LoadedLM(NamedTuple):
    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase | None
    start_token: int | None  # for models that cannot do without


def load_causal_lm(source: str, *, dtype: str = "float32") -> LoadedLM:
    """The model and, where it has one, the tokenizer of a name, a folder or a GGUF file."""
    return _load(Path(resolve_causal_lm(source).folder), AutoModelForCausalLM, dtype)


def untrained_causal_lm(source: str) -> PreTrainedModel:
    """A model of the shape that one at this source has."""
    return AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(resolve_causal_lm(source).folder))


def load_masked_lm(source: str, *, dtype: str = "float32") -> LoadedLM:
    """The masked LM with its head, and its tokenizer, of a folder or a Hub name.

    An encoder without a head is refused: transformers would give it random weights.
    """
    folder = Path(resolve_encoder(source).folder)
    architectures = json.loads((folder / "config.json").read_text(encoding="utf-8")).get("architectures") or []
    if not any(name.endswith("ForMaskedLM") for name in architectures):
        named = ", ".join(architectures) or "a model of no named architecture"
        raise LexergyError(
            f"{folder} holds {named}; expected a masked LM with its head (...ForMaskedLM); "
            "train one as the stage `masked_lm` of a run, or fetch one."
        )
    return _load(folder, AutoModelForMaskedLM, dtype)


def load_weights(loader: Any, folder: Path, dtype: str = "float32") -> Any:
    """A model as `loader.from_pretrained` reads it."""
    try:
        return loader.from_pretrained(folder, dtype=getattr(torch, dtype))
    except (OSError, SafetensorError, ValueError, KeyError, RuntimeError) as error:
        raise LexergyError(
            f"the model in '{folder}' cannot be read ({first_line(error)}); expected config.json and whole "
            "safetensors weights; fetch or save it again."
        ) from error


def _load(folder: Path, architecture: Any, dtype: str) -> LoadedLM:
    model = load_weights(architecture, folder, dtype)
    has_tokenizer = any((folder / name).is_file() for name in _TOKENIZER_FILES)
    tokenizer = load_tokenizer(folder) if has_tokenizer else None
    if tokenizer is None or not model.config.model_type.startswith(_STARTED):
        return LoadedLM(model, tokenizer, start_token=None)
    return LoadedLM(model, tokenizer, start_token=tokenizer.bos_token_id)
