"""What is known of a model before its weights are read."""

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from lexergy.errors import LexergyError
from lexergy.models.loading.devices import default_device
from lexergy.models.loading.sources import resolve_encoder


@dataclass(frozen=True)
class ModelSource:
    """A model's name, as it is asked for, and the configuration in its folder."""

    name: str

    @cached_property
    def folder(self) -> Path:
        """The local folder, fetched from the Hub where the name is one of there."""
        return resolve_encoder(self.name).folder

    @cached_property
    def _config(self) -> dict[str, Any]:
        path = self.folder / "config.json"
        return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}

    @property
    def model_type(self) -> str | None:
        return self._config.get("model_type")

    @property
    def architecture(self) -> str:
        """The name of the class; "" where there is none."""
        return (self._config.get("architectures") or [""])[0]


def load_model(kind: Any, folder: Path) -> Any:
    """The model of a folder, ready to score."""
    try:
        return kind.from_pretrained(folder).to(default_device()).eval()
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0][:160]
        raise LexergyError(
            f"the model in '{folder}' cannot be read ({reason}); expected what `save_pretrained` wrote; "
            "fetch or train it again."
        ) from error
