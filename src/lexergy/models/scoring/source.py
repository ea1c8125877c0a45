"""What is known of a model before its weights are read."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from lexergy.models.loading.devices import default_device
from lexergy.models.loading.sources import CAUSAL_LMS, read_config, resolve_encoder
from lexergy.models.loading.weights import load_weights

SCORERS = (*CAUSAL_LMS, "trigram")  # that need no folder


@dataclass(frozen=True)
class ModelSource:
    """A model's name, as it is asked for, and the configuration in its folder."""

    name: str

    @cached_property
    def folder(self) -> Path:
        """The local folder, fetched from the Hub where the name is one of there."""
        return resolve_encoder(self.name, SCORERS).folder

    @cached_property
    def _config(self) -> dict[str, Any]:
        return read_config(self.folder)

    @property
    def model_type(self) -> str | None:
        return self._config.get("model_type")

    @property
    def architecture(self) -> str:
        """The name of the class; "" where there is none."""
        named = self._config.get("architectures")
        return str(named[0]) if named and isinstance(named, list) else ""


def load_model(kind: Any, folder: Path) -> Any:
    """The model of a folder, ready to score."""
    return load_weights(kind, folder).to(default_device()).eval()
