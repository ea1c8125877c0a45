"""Cloze models, which give each token a score given all others: Electric, the two-tower model, ELECTRA's parts."""

from transformers import AutoConfig, AutoModel

from lexergy.models.cloze.electric import ElectricConfig, ElectricModel
from lexergy.models.cloze.generators import MaskedGenerator, MaskedGeneratorConfig, TwoTowerConfig, TwoTowerModel

__all__ = [
    "ElectricConfig",
    "ElectricModel",
    "MaskedGenerator",
    "MaskedGeneratorConfig",
    "TwoTowerConfig",
    "TwoTowerModel",
]

for _config, _model in (
    (ElectricConfig, ElectricModel),
    (TwoTowerConfig, TwoTowerModel),
    (MaskedGeneratorConfig, MaskedGenerator),
):
    AutoConfig.register(_config.model_type, _config)
    AutoModel.register(_config, _model)
