"""A transformer that fills masks in a translation, seeing the whole source and the whole rest of the target.

An encoder reads the source; a decoder without a causal mask reads the target with its masks and attends to the source;
the target's length is read off a place of its own before the source (Ghazvininejad et al. 2019).
"""

from typing import NamedTuple

import torch
import torch.nn.functional as functional
from torch import Tensor, nn
from transformers import AutoConfig, PreTrainedConfig, PreTrainedModel

from lexergy.models.architectures.initialisation import initialised_from


class ConditionalTransformerConfig(PreTrainedConfig):
    """`num_layers` of the encoder and as many of the decoder; `max_tokens` of a source and of a target."""

    model_type = "lexergy_conditional_transformer"

    vocab_size: int = 5000
    hidden_size: int = 512
    num_layers: int = 6
    num_heads: int = 8
    feed_forward_size: int = 2048
    max_tokens: int = 128
    dropout: float = 0.1
    initializer_range: float = 0.02
    pad_token_id: int = 0


class EncodedSource(NamedTuple):
    states: Tensor  # (N, S, D)
    padding: Tensor  # (N, S) bool
    length_logits: Tensor  # (N, max_tokens), of lengths 1, 2, ...

    def select(self, rows: Tensor) -> "EncodedSource":
        return EncodedSource(*(part[rows] for part in self))


class ConditionalTransformer(PreTrainedModel):
    """Norms before each block, learned positions; one table embeds both languages and scores the target."""

    config: ConditionalTransformerConfig
    config_class = ConditionalTransformerConfig

    def __init__(self, config: ConditionalTransformerConfig) -> None:
        super().__init__(config)
        shape = {
            "d_model": config.hidden_size,
            "nhead": config.num_heads,
            "dim_feedforward": config.feed_forward_size,
            "dropout": config.dropout,
            "activation": "gelu",
            "batch_first": True,
            "norm_first": True,
        }
        self.embedding = nn.Embedding(config.vocab_size, config.hidden_size)
        self.source_positions = nn.Embedding(1 + config.max_tokens, config.hidden_size)  # the first: of the length
        self.target_positions = nn.Embedding(config.max_tokens, config.hidden_size)
        self.dropout = nn.Dropout(config.dropout)
        self.encoder = nn.TransformerEncoder(
            nn.TransformerEncoderLayer(**shape),  # type: ignore[arg-type]
            config.num_layers,
            nn.LayerNorm(config.hidden_size),
            enable_nested_tensor=False,
        )
        self.decoder = nn.TransformerDecoder(
            nn.TransformerDecoderLayer(**shape),  # type: ignore[arg-type]
            config.num_layers,
            nn.LayerNorm(config.hidden_size),
        )
        self.length_head = nn.Linear(config.hidden_size, config.max_tokens)
        self.post_init()

    @classmethod
    def from_config(cls, config: ConditionalTransformerConfig, seed: int) -> "ConditionalTransformer":
        """An untrained one; its weights depend on the seed alone."""
        with initialised_from(seed):
            return cls(config)

    def encode(self, source: Tensor) -> EncodedSource:  # (N, S)
        """States of the source's tokens, and the distribution of the target's length."""
        padding = source == self.config.pad_token_id
        length_place = self.source_positions.weight[0].expand(len(source), 1, -1)
        inputs = self.embedding(source) + self.source_positions.weight[1 : 1 + source.shape[1]]
        states = self.encoder(
            self.dropout(torch.cat([length_place, inputs], dim=1)),
            src_key_padding_mask=functional.pad(padding, (1, 0), value=False),
        )
        return EncodedSource(states[:, 1:], padding, self.length_head(states[:, 0]))

    def decode(self, target: Tensor, source: EncodedSource) -> Tensor:  # (N, T) -> (N, T, D)
        """States of the target's tokens, masked or not, each of which sees all others and the source."""
        inputs = self.embedding(target) + self.target_positions.weight[: target.shape[1]]
        return self.decoder(
            self.dropout(inputs),
            source.states,
            tgt_key_padding_mask=target == self.config.pad_token_id,
            memory_key_padding_mask=source.padding,
        )

    def states_at(self, target: Tensor, places: Tensor, source: EncodedSource, which: Tensor) -> Tensor:
        """`decode` at some places only, without dropout: (N, T), (N, T) bool, n sources, (N,) -> (M, D).

        `which` of the sources belongs to each row: their keys and values are computed once for each source, and what
        the last layer makes of other places is not computed.
        """
        seen = None if (target != self.config.pad_token_id).all() else (target != self.config.pad_token_id)
        rows = places.nonzero(as_tuple=True)[0]
        states = self.embedding(target) + self.target_positions.weight[: target.shape[1]]
        *layers, last = self.decoder.layers
        for layer in layers:
            own = _keys_and_values(layer.self_attn, layer.norm1(states))
            states = _read_layer(layer, states, own, seen, source, which)
        own = _keys_and_values(last.self_attn, last.norm1(states))
        own, seen = own.select(rows), None if seen is None else seen[rows]
        states = _read_layer(last, states[places][:, None], own, seen, source, which[rows])
        return self.decoder.norm(states)[:, 0]  # type: ignore[misc]

    def logits(self, states: Tensor) -> Tensor:  # (..., D) -> (..., V)
        return functional.linear(states, self.embedding.weight)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:  # (N, S), (N, T) -> (N, T, V)
        """Logits of every token at every place of the target."""
        return self.logits(self.decode(target, self.encode(source)))


class _KeysAndValues(NamedTuple):
    keys: Tensor  # (N, heads, T, D / heads)
    values: Tensor

    def select(self, rows: Tensor) -> "_KeysAndValues":
        return _KeysAndValues(self.keys[rows], self.values[rows])


def _keys_and_values(attention: nn.MultiheadAttention, states: Tensor) -> _KeysAndValues:  # (N, T, D)
    size = attention.embed_dim
    joint = functional.linear(states, attention.in_proj_weight[size:], attention.in_proj_bias[size:])
    heads = joint.unflatten(-1, (2, attention.num_heads, -1))  # (N, T, 2, heads, D / heads)
    return _KeysAndValues(*(part.transpose(1, 2) for part in heads.unbind(2)))


def _attend(
    attention: nn.MultiheadAttention, states: Tensor, read: _KeysAndValues, seen: Tensor | None
) -> Tensor:  # (N, Q, D), (N, T) bool or None: all -> (N, Q, D)
    size = attention.embed_dim
    queries = functional.linear(states, attention.in_proj_weight[:size], attention.in_proj_bias[:size])
    queries = queries.unflatten(-1, (attention.num_heads, -1)).transpose(1, 2)
    mask = None if seen is None else seen[:, None, None]
    heads = functional.scaled_dot_product_attention(queries, *read, attn_mask=mask)
    return attention.out_proj(heads.transpose(1, 2).flatten(2))


def _read_layer(
    layer: nn.TransformerDecoderLayer,
    states: Tensor,  # (N, Q, D)
    own: _KeysAndValues,
    seen: Tensor | None,  # (N, T) bool
    source: EncodedSource,
    which: Tensor,  # (N,)
) -> Tensor:  # (N, Q, D)
    states = states + _attend(layer.self_attn, layer.norm1(states), own, seen)
    memory = _keys_and_values(layer.multihead_attn, source.states).select(which)
    states = states + _attend(layer.multihead_attn, layer.norm2(states), memory, ~source.padding[which])
    return states + layer.linear2(functional.gelu(layer.linear1(layer.norm3(states))))


AutoConfig.register(ConditionalTransformerConfig.model_type, ConditionalTransformerConfig)
