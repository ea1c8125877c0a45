"""Energy-based models for text.

The public names are imported on first use, so that `import lexergy` stays quick.
"""

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

_HOMES = {
    "CausalLM": "lexergy.models.causal.lm",
    "EnergyModel": "lexergy.models.energies",
    "ResidualEBM": "lexergy.models.joint.model",
    "RightToLeftLM": "lexergy.models.causal.right_to_left",
    "LexergyError": "lexergy.errors",
}

__all__ = ["CausalLM", "EnergyModel", "LexergyError", "ResidualEBM", "RightToLeftLM"]

if TYPE_CHECKING:
    from lexergy.errors import LexergyError
    from lexergy.models.causal.lm import CausalLM
    from lexergy.models.causal.right_to_left import RightToLeftLM
    from lexergy.models.energies import EnergyModel
    from lexergy.models.joint.model import ResidualEBM


def __getattr__(name: str) -> object:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'lexergy' has no attribute {name!r}")
