"""Transformers without embeddings' owner or head: encoders, and the causal towers of a two-tower model."""

from dataclasses import dataclass, replace
from typing import Any, cast

import torch
from transformers import AutoConfig, AutoModel, BertConfig, PreTrainedConfig, PreTrainedModel

from lexergy.errors import LexergyError
from lexergy.models.architectures.scratch import build_causal_lm, build_masked_lm

BERT, EUROBERT = "bert", "eurobert"


@dataclass(frozen=True)
class BodyShape:
    """The size of a transformer: a BERT (Devlin et al. 2019), or a EuroBERT, whose causal twin is a Llama."""

    vocab_size: int
    hidden_size: int
    num_layers: int
    num_heads: int
    max_length: int  # in tokens, those at the two ends included
    architecture: str = EUROBERT
    feed_forward_size: int | None = None
    dropout: float = 0.0

    @property
    def normalises_embeddings(self) -> bool:
        """Whether a norm stands between the embeddings and the first layer."""
        return self.architecture == BERT

    def scaled(self, factor: float) -> "BodyShape":
        """Width, feed-forward width and heads times `factor`, heads of the same width (App. A)."""
        heads = max(1, round(factor * self.num_heads))
        head_size = self.hidden_size // self.num_heads
        inner = self.feed_forward_size
        return replace(
            self,
            num_heads=heads,
            hidden_size=heads * head_size,
            feed_forward_size=None if inner is None else round(factor * inner),
        )


def body_config(shape: BodyShape, *, causal: bool) -> dict[str, Any]:
    """The transformers configuration of an encoder, or of its causal twin."""
    if shape.architecture == BERT:
        return _bert_config(shape, causal).to_dict()
    if shape.architecture != EUROBERT:
        raise LexergyError(f"`architecture` is {shape.architecture!r}; expected '{EUROBERT}' or '{BERT}'.")
    build: Any = build_causal_lm if causal else build_masked_lm
    with torch.device("meta"):  # only its configuration is wanted
        model = build(
            shape.vocab_size,
            shape.hidden_size,
            shape.num_layers,
            shape.num_heads,
            shape.max_length,
            seed=0,
            dropout=shape.dropout,
            feed_forward_size=shape.feed_forward_size,
        )
    return model.config.to_dict()


def start_embeddings(embeddings: torch.nn.Module, shape: BodyShape) -> None:
    """Give the vectors of tokens a length of about 1, where no norm stands between them and the first layer.

    As short as other weights start (.02 each), they are drowned by what the layers add, and nothing is learnt for long.
    """
    if not shape.normalises_embeddings:
        weight = cast(torch.Tensor, embeddings.weight)
        with torch.no_grad():
            weight.mul_(weight.shape[1] ** -0.5 / weight.std())


def make_body(config: dict[str, Any] | None) -> PreTrainedModel:
    """An untrained transformer of this configuration, without BERT's pooler."""
    values: PreTrainedConfig = AutoConfig.for_model(**(config or {"model_type": BERT}))
    body = cast(PreTrainedModel, AutoModel.from_config(values))
    if hasattr(body, "pooler"):  # BERT's reads the first token only; nothing here uses it
        body.pooler = None  # type: ignore[assignment]
    return body


def make_tower(config: dict[str, Any] | None) -> PreTrainedModel:
    """The same without token embeddings: it reads those that its owner gives it."""
    body = make_body(config)
    body.set_input_embeddings(None)  # type: ignore[arg-type]
    return body


def _bert_config(shape: BodyShape, causal: bool) -> BertConfig:
    if shape.hidden_size % shape.num_heads:
        raise LexergyError(
            f"`hidden_size` is {shape.hidden_size} and `num_heads` {shape.num_heads}; expected heads of an equal "
            f"width; choose a multiple of {shape.num_heads} as width."
        )
    return BertConfig(
        vocab_size=shape.vocab_size,
        hidden_size=shape.hidden_size,
        num_hidden_layers=shape.num_layers,
        num_attention_heads=shape.num_heads,
        intermediate_size=shape.feed_forward_size or 4 * shape.hidden_size,
        max_position_embeddings=shape.max_length,
        hidden_dropout_prob=shape.dropout,
        attention_probs_dropout_prob=shape.dropout,
        is_decoder=causal,
        use_cache=False,
        pad_token_id=None,  # its embedding would stay zero; sequences here are never padded
    )
