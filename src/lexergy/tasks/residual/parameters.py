"""How many parameters each row of a recipe's table has, counted without making a single one."""

from dataclasses import asdict
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel, RobertaConfig

from lexergy.models.architectures.scratch import build_causal_lm, build_masked_lm
from lexergy.models.causal.lm import CausalLM
from lexergy.models.causal.product_lm import ProductLM, num_parameters
from lexergy.models.energies import Lora, NgramTables, StatesEnergy, TransformerEnergy
from lexergy.models.energies.backbones import CAUSAL_LM, ENCODER, MASKED_LM
from lexergy.models.energies.transformer import TransformerEnergyConfig
from lexergy.models.loading.sources import resolve_causal_lm, resolve_encoder
from lexergy.recipes.energies import (
    BiLSTMEnergyRecipe,
    EncoderEnergyRecipe,
    EnergyRecipe,
    LinearEnergyRecipe,
    RefreshedEnergyRecipe,
    StatesEnergyRecipe,
    SumEnergyRecipe,
    TransformerEnergyRecipe,
)
from lexergy.recipes.residual import BaselineRecipe, ResidualRecipe
from lexergy.tasks.residual.base_models import sizes_of
from lexergy.tasks.residual.baselines import block_length, make_baseline
from lexergy.tasks.residual.energies import make_token_energy

_ROBERTA: dict[str, Any] = {"vocab_size": 50265, "max_position_embeddings": 514, "type_vocab_size": 1}
# The published configurations of the paper's encoders, so that they can be counted where there is no Hub.
PUBLISHED = {
    "FacebookAI/roberta-base": RobertaConfig(**_ROBERTA),
    "FacebookAI/roberta-large": RobertaConfig(
        **_ROBERTA, hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096
    ),
}


def count_parameters(recipe: ResidualRecipe) -> dict[str, int]:
    """Parameters by row, as Table 1 of Deng et al. (2020) counts: `lm`, what each energy and RALM adds to it, BALM's.

    Tied weights count once. An LM trained here has the vocabulary that the recipe asks for.
    """
    with torch.device("meta"):
        lm = _lm(recipe)
        counts = {"lm": num_parameters(lm)}
        for name, energy in recipe.energies.items():
            counts[name] = _energy_parameters(recipe, energy, lm)
        for name, baseline in recipe.baselines.items():
            counts[name] = _baseline_parameters(recipe, baseline, lm)
    return counts


def _lm(recipe: ResidualRecipe) -> PreTrainedModel:
    if recipe.lm.train is not None:
        return build_causal_lm(recipe.lm.train.vocab_size, **sizes_of(recipe.lm.train), seed=0)
    folder = resolve_causal_lm(str(recipe.lm.source)).folder
    return AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(folder))


def _energy_parameters(recipe: ResidualRecipe, energy: EnergyRecipe, lm: PreTrainedModel) -> int:
    if isinstance(energy, SumEnergyRecipe):
        return sum(_energy_parameters(recipe, recipe.energies[name], lm) for name in energy.of)
    if isinstance(energy, RefreshedEnergyRecipe):
        return _energy_parameters(recipe, recipe.energies[energy.of], lm)
    if isinstance(energy, StatesEnergyRecipe):
        head = StatesEnergy.for_lm(CausalLM(lm), energy.layers, hidden_units=energy.hidden_units)
        return num_parameters(head)
    if isinstance(energy, LinearEnergyRecipe | BiLSTMEnergyRecipe):
        return num_parameters(make_token_energy(energy, lm.get_output_embeddings().weight.shape[0], seed=0))
    kind, backbone = _backbone(recipe, energy, lm)
    config = TransformerEnergyConfig(backbone=backbone, backbone_kind=kind)
    if energy.lora is not None:
        config.lora = asdict(Lora(**energy.lora.model_dump()))
    if isinstance(energy, TransformerEnergyRecipe) and energy.ngram_tables is not None:
        config.ngram_tables = asdict(NgramTables(**energy.ngram_tables.model_dump()))
    return num_parameters(TransformerEnergy(config))


def _backbone(
    recipe: ResidualRecipe, energy: TransformerEnergyRecipe | EncoderEnergyRecipe, lm: PreTrainedModel
) -> tuple[str, dict]:
    if isinstance(energy, EncoderEnergyRecipe):
        known = PUBLISHED.get(energy.source)
        return ENCODER, (known or AutoConfig.from_pretrained(resolve_encoder(energy.source).folder)).to_dict()
    if energy.origin == "lm":
        return CAUSAL_LM, lm.config.to_dict()
    assert recipe.masked_lm is not None
    masked_lm = build_masked_lm(lm.config.vocab_size, **sizes_of(recipe.masked_lm), seed=0)
    return MASKED_LM, masked_lm.config.to_dict()


def _baseline_parameters(recipe: ResidualRecipe, baseline: BaselineRecipe, lm: PreTrainedModel) -> int:
    model = make_baseline(baseline, lm, block_length(recipe, baseline), seed=0)
    return num_parameters(model.residual if isinstance(model, ProductLM) else model)
