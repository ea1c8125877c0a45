"""Any language model by its source, wherever it runs."""

from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from lexergy.errors import LexergyError
from lexergy.models.causal.language_model import LanguageModel
from lexergy.models.causal.lm import CausalLM, read_reference
from lexergy.models.remote.lm import RemoteLM
from lexergy.recipes.sections.remote import REMOTE, is_remote
from lexergy.recipes.sections.runtime import Precision, Runtime

_EXPECTED = f"{REMOTE}http://127.0.0.1:8080#tokenizer=smollm2-135m"


def open_lm(source: str | Path, *, runtime: Runtime = "auto", precision: Precision | None = None) -> LanguageModel:
    """A `RemoteLM` for `openai:http://...#tokenizer=...&model=...`, else a `CausalLM`; or a folder of either."""
    reference = read_reference(Path(source))
    if reference is not None and is_remote(reference["source"]):
        return RemoteLM.from_pretrained(source)
    if not is_remote(str(source)):
        return CausalLM.from_pretrained(source, runtime=runtime, precision=precision)
    url, _, settings = str(source).removeprefix(REMOTE).partition("#")
    return RemoteLM(url, **_settings(settings, str(source)))


def _settings(written: str, source: str) -> dict[str, Any]:
    settings = dict(parse_qsl(written, keep_blank_values=True))
    unknown = settings.keys() - {"tokenizer", "model"}
    if unknown or not settings.get("tokenizer"):
        problem = f"an unknown setting `{min(unknown)}`" if unknown else "no tokenizer"
        raise LexergyError(
            f"`{source}` has {problem}; expected the address, the tokenizer of its model and, where the server has "
            f"several, a model: `{_EXPECTED}&model=NAME`."
        )
    return settings
