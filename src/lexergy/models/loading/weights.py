"""Load a model and its tokenizer from a resolved folder: all weights or an error, and no code from the folder."""

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import torch
import transformers
from torch import nn
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from lexergy.errors import LexergyError
from lexergy.files import reading
from lexergy.models.architectures import gated_conv  # noqa: F401 (registers itself with transformers)
from lexergy.models.loading import sending  # noqa: F401 (registers itself with the transport of shards)
from lexergy.models.loading.bars import without_bars
from lexergy.models.loading.sources import FETCH, read_config, resolve_causal_lm, resolve_encoder, whole_folder
from lexergy.models.loading.tokenizer import load_tokenizer

_STARTED = "gemma"  # all of this family are lost without their BOS token
_TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json", "vocab.json", "tokenizer.model")
# Of BERT's pre-training; neither a masked LM nor an encoder here reads them.
_NEVER_READ = re.compile(r"(^|\.)(pooler|seq_relationship)\.")


class LoadedLM(NamedTuple):
    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase | None
    start_token: int | None  # for models that cannot do without


def load_causal_lm(source: str, *, dtype: str = "float32") -> LoadedLM:
    """The model and, where it has one, the tokenizer of a name, a folder or a GGUF file."""
    return _load(Path(resolve_causal_lm(source).folder), AutoModelForCausalLM, dtype)


def untrained_causal_lm(source: str) -> PreTrainedModel:
    """A model of the shape that one at this source has."""
    return AutoModelForCausalLM.from_config(load_config(resolve_causal_lm(source).folder))


def load_masked_lm(source: str, *, dtype: str = "float32") -> LoadedLM:
    """The masked LM with its head, and its tokenizer, of a folder or a Hub name."""
    folder = Path(resolve_encoder(source).folder)
    architectures = read_config(folder).get("architectures") or []
    if not any(str(name).endswith("ForMaskedLM") for name in architectures):
        named = ", ".join(map(str, architectures)) or "a model of no named architecture"
        raise LexergyError(
            f"{folder} holds {named}; expected a masked LM with its head (...ForMaskedLM); "
            "train one as the stage `masked_lm` of a run, or fetch one."
        )
    return _load(folder, AutoModelForMaskedLM, dtype)


def load_config(folder: Path) -> PreTrainedConfig:
    """The configuration of a model that transformers knows by itself."""
    with reading(folder / "config.json", FETCH):
        return AutoConfig.from_pretrained(folder, trust_remote_code=False)


def load_weights(loader: Any, folder: Path, dtype: str = "float32", *, headless: bool = False) -> Any:
    """A model as `loader.from_pretrained` reads it, if the folder holds each of its weights, and no others.

    transformers would give random numbers to weights that are missing, and leave out those that it does not know. Of a
    `headless` model, the body of one with a head, the head's may be there.
    """
    with reading(folder, f"expected config.json and whole safetensors weights; {FETCH}"), without_bars():
        model, loaded = loader.from_pretrained(
            whole_folder(folder),
            dtype=getattr(torch, dtype),
            trust_remote_code=False,
            use_safetensors=True,
            ignore_mismatched_sizes=True,
            output_loading_info=True,
        )
    misfits = {
        "is missing": loaded["missing_keys"],
        "is not of this model": _of_body(loaded["unexpected_keys"], model) if headless else loaded["unexpected_keys"],
        "has another shape": [name for name, *_ in loaded["mismatched_keys"]],
    }
    for problem, names in misfits.items():
        wrong = sorted(name for name in names if not _NEVER_READ.search(name))
        if wrong:
            raise LexergyError(
                f"the weights in '{folder}' do not fit its config.json: {wrong[0]} {problem}"
                f"{f', and {len(wrong) - 1} more' if len(wrong) > 1 else ''}; {FETCH}."
            )
    _check_type(folder)
    check_finite(model, folder)
    return model


def _check_type(folder: Path) -> None:
    """Refuse a `model_type` that is not of the class that was saved: two families may have the same weights' names."""
    config = read_config(folder)
    for name in config.get("architectures") or []:
        saved = getattr(getattr(transformers, str(name), None), "config_class", None)
        if saved is not None and saved.model_type != config["model_type"]:
            raise LexergyError(
                f"the model in '{folder}' was saved as a {name} and its config.json says it is of type "
                f"{config['model_type']!r}; expected {saved.model_type!r}; {FETCH}."
            )


def _of_body(names: Iterable[str], model: PreTrainedModel) -> list[str]:
    """Those of the weights that lie where the body's own do; a head's have places of their own."""
    parts = {name for name, _ in model.named_children()}
    return [name for name in names if name.removeprefix(f"{model.base_model_prefix}.").split(".")[0] in parts]


def check_finite(model: nn.Module, folder: str | Path) -> None:
    """Refuse weights among which is a NaN or an infinity: nothing computed with them would mean anything."""
    for name, weight in model.named_parameters():
        if not weight.sum(dtype=torch.float32).isfinite():
            raise LexergyError(f"the weights in '{folder}' are no numbers: {name} holds NaN or infinity; {FETCH}.")


def needs_start(model_type: str | None) -> bool:
    """Whether a model of this type is lost without its BOS token."""
    return (model_type or "").startswith(_STARTED)


def _load(folder: Path, architecture: Any, dtype: str) -> LoadedLM:
    model = load_weights(architecture, folder, dtype)
    has_tokenizer = any((folder / name).is_file() for name in _TOKENIZER_FILES)
    tokenizer = load_tokenizer(folder) if has_tokenizer else None
    if tokenizer is None or not needs_start(model.config.model_type):
        return LoadedLM(model, tokenizer, start_token=None)
    return LoadedLM(model, tokenizer, start_token=tokenizer.bos_token_id)
