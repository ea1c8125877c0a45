"""Energies: a scalar per sequence, low where text is likely. Every one answers `score`."""

from lexergy.models.architectures.lora import Lora
from lexergy.models.architectures.ngram_tables import NgramTables
from lexergy.models.energies.adapters import Energy, TextEnergy, TokenEnergy, as_energy
from lexergy.models.energies.base import EnergyConfig, EnergyModel
from lexergy.models.energies.feature_heads import FeatureEnergy
from lexergy.models.energies.readers import ReaderEnergy, ReaderEnergyConfig
from lexergy.models.energies.states import StatesEnergy, StatesEnergyConfig
from lexergy.models.energies.sum import SumEnergy, SumEnergyConfig
from lexergy.models.energies.tokens import BiLSTMEnergy, BiLSTMEnergyConfig, LinearEnergy, LinearEnergyConfig
from lexergy.models.energies.transformer import TransformerEnergy, TransformerEnergyConfig
from lexergy.models.energies.unpadded import score_unpadded

__all__ = [
    "BiLSTMEnergy",
    "BiLSTMEnergyConfig",
    "Energy",
    "EnergyConfig",
    "EnergyModel",
    "FeatureEnergy",
    "LinearEnergy",
    "LinearEnergyConfig",
    "Lora",
    "NgramTables",
    "ReaderEnergy",
    "ReaderEnergyConfig",
    "StatesEnergy",
    "StatesEnergyConfig",
    "SumEnergy",
    "SumEnergyConfig",
    "TextEnergy",
    "TokenEnergy",
    "TransformerEnergy",
    "TransformerEnergyConfig",
    "as_energy",
    "score_unpadded",
]
