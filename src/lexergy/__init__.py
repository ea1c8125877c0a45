"""Energy-based models for text.

The public names are imported on first use, so that `import lexergy` stays quick.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from lexergy.processor import avoid_empty_tiles

__version__ = "0.1.0"

_HOMES = {
    "BiLSTMEnergy": "lexergy.models.energies",
    "CausalLM": "lexergy.models.causal.lm",
    "Detector": "lexergy.models.detection.detector",
    "ElectricModel": "lexergy.models.cloze.electric",
    "EnergyConfig": "lexergy.models.energies",
    "EnergyModel": "lexergy.models.energies",
    "Finetuned": "lexergy.models.finetuned.model",
    "LaboratoryRecipe": "lexergy.recipes.real_or_fake",
    "LexergyError": "lexergy.errors",
    "LinearEnergy": "lexergy.models.energies",
    "MaskedLM": "lexergy.models.masked.lm",
    "MaskedObjectivesRecipe": "lexergy.recipes.masked",
    "PretrainingRecipe": "lexergy.recipes.cloze",
    "ReaderEnergy": "lexergy.models.energies",
    "RemoteLM": "lexergy.models.remote.lm",
    "ResidualEBM": "lexergy.models.joint.model",
    "ResidualRecipe": "lexergy.recipes.residual",
    "RightToLeftLM": "lexergy.models.causal.right_to_left",
    "SearchAwareRecipe": "lexergy.recipes.search_aware",
    "Seq2Seq": "lexergy.models.seq2seq",
    "StatesEnergy": "lexergy.models.energies",
    "SumEnergy": "lexergy.models.energies",
    "TextEnergy": "lexergy.models.energies",
    "TransformerEnergy": "lexergy.models.energies",
    "TranslationRecipe": "lexergy.recipes.masked",
    "TwoTowerModel": "lexergy.models.cloze.generators",
    "as_energy": "lexergy.models.energies",
    "load_recipe": "lexergy.recipes.loader",
    "load_run": "lexergy.runs.records",
    "load_scorer": "lexergy.models.scoring.kinds",
    "pretrain": "lexergy.tasks.cloze.pretraining",
    "run": "lexergy.tasks.residual.run",
}

__all__ = [
    "BiLSTMEnergy",
    "CausalLM",
    "Detector",
    "ElectricModel",
    "EnergyConfig",
    "EnergyModel",
    "Finetuned",
    "LaboratoryRecipe",
    "LexergyError",
    "LinearEnergy",
    "MaskedLM",
    "MaskedObjectivesRecipe",
    "PretrainingRecipe",
    "ReaderEnergy",
    "RemoteLM",
    "ResidualEBM",
    "ResidualRecipe",
    "RightToLeftLM",
    "SearchAwareRecipe",
    "Seq2Seq",
    "StatesEnergy",
    "SumEnergy",
    "TextEnergy",
    "TransformerEnergy",
    "TranslationRecipe",
    "TwoTowerModel",
    "as_energy",
    "load_recipe",
    "load_run",
    "load_scorer",
    "pretrain",
    "run",
]

if TYPE_CHECKING:
    from lexergy.errors import LexergyError
    from lexergy.models.causal.lm import CausalLM
    from lexergy.models.causal.right_to_left import RightToLeftLM
    from lexergy.models.cloze.electric import ElectricModel
    from lexergy.models.cloze.generators import TwoTowerModel
    from lexergy.models.detection.detector import Detector
    from lexergy.models.energies import (
        BiLSTMEnergy,
        EnergyConfig,
        EnergyModel,
        LinearEnergy,
        ReaderEnergy,
        StatesEnergy,
        SumEnergy,
        TextEnergy,
        TransformerEnergy,
        as_energy,
    )
    from lexergy.models.finetuned.model import Finetuned
    from lexergy.models.joint.model import ResidualEBM
    from lexergy.models.masked.lm import MaskedLM
    from lexergy.models.remote.lm import RemoteLM
    from lexergy.models.scoring.kinds import load_scorer
    from lexergy.models.seq2seq import Seq2Seq
    from lexergy.recipes.cloze import PretrainingRecipe
    from lexergy.recipes.loader import load_recipe
    from lexergy.recipes.masked import MaskedObjectivesRecipe, TranslationRecipe
    from lexergy.recipes.real_or_fake import LaboratoryRecipe
    from lexergy.recipes.residual import ResidualRecipe
    from lexergy.recipes.search_aware import SearchAwareRecipe
    from lexergy.runs.records import load_run
    from lexergy.tasks.cloze.pretraining import pretrain
    from lexergy.tasks.residual.run import run


avoid_empty_tiles()


def __getattr__(name: str) -> object:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'lexergy' has no attribute {name!r}")
