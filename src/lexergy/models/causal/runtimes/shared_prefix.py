"""Many continuations of one prefix: the prefix is run once and its keys and values are kept once.

Each continuation keeps only the keys and values of its own tokens. Attention over the shared prefix is one
matrix product for all continuations, attention over a continuation's own tokens a small one for each; both
sets of scores go through one softmax, so the result is that of the whole sequence.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from transformers import AttentionInterface, Cache, DynamicCache, PreTrainedModel
from transformers.cache_utils import CacheLayerMixin

from lexergy.models.inference.attention import attending_by
from lexergy.models.inference.linears import fast_linears

_ATTENTION = "lexergy_shared_prefix"
TOKENS_AT_ONCE = 512  # of prefixes: more do not fit the processor's cache, fewer read the weights too often


class SharedPrefix(NamedTuple):
    """Keys and values of B prefixes, one pair of (B, heads, P, head width) per layer."""

    keys: list[Tensor]
    values: list[Tensor]

    @property
    def length(self) -> int:
        return self.keys[0].shape[2]

    @property
    def num_prefixes(self) -> int:
        return self.keys[0].shape[0]

    def select(self, prefixes: slice) -> "SharedPrefix":
        """Some of the prefixes, without a copy."""
        return SharedPrefix([key[prefixes] for key in self.keys], [value[prefixes] for value in self.values])

    @classmethod
    def join(cls, parts: Sequence["SharedPrefix"]) -> "SharedPrefix":
        """The prefixes of all parts, one after the other."""
        if len(parts) == 1:
            return parts[0]
        memories = zip(*((*part.keys, *part.values) for part in parts), strict=True)
        joined = [torch.cat(memory) for memory in memories]
        return cls(joined[: len(joined) // 2], joined[len(joined) // 2 :])


class Prefilled(NamedTuple):
    """Prefixes that were run."""

    logits: Tensor  # (B, V), of the token after the prefix
    shared: SharedPrefix


def prefill_in_groups(prefix: Tensor, run: Callable[[Tensor], Prefilled]) -> Prefilled:
    """Run the prefixes (B, P) a few at a time."""
    parts = [run(group) for group in prefix.split(max(1, TOKENS_AT_ONCE // prefix.shape[1]))]
    return Prefilled(torch.cat([part.logits for part in parts]), SharedPrefix.join([part.shared for part in parts]))


def prefill(model: PreTrainedModel, prefix: Tensor | None, **kwargs: Any) -> tuple[Any, SharedPrefix]:
    """Run the prefixes (B, P) (or `inputs_embeds`) through the model once; its output, their keys and values."""
    cache = DynamicCache()
    with fast_linears(model):
        output = model(input_ids=prefix, past_key_values=cache, use_cache=True, **kwargs)
    layers: list[Any] = cache.layers
    return output, SharedPrefix([layer.keys for layer in layers], [layer.values for layer in layers])


class Continuations:
    """R = B * K continuations, K for each of B shared prefixes in turn, fed a few tokens at a time."""

    has_own_threads = False

    def __init__(self, model: PreTrainedModel, prefix: SharedPrefix, num_rows: int, max_length: int) -> None:
        self.model = model
        self.prefix = prefix
        self._cache = _OwnCache(len(prefix.keys), prefix.length, max_length)
        self._length = 0

    def feed(self, tokens: Tensor | None = None, *, model: PreTrainedModel | None = None, **kwargs: Any) -> Any:
        """Feed the next tokens (R, T) (or `inputs_embeds`) of each continuation; the model's output on them."""
        model = model or self.model
        fed = tokens if tokens is not None else kwargs["inputs_embeds"]
        start = self.prefix.length + self._length
        positions = torch.arange(start, start + fed.shape[1], device=fed.device).expand(len(fed), -1)
        with attending_by(_ATTENTION, model), fast_linears(model):
            output = model(
                input_ids=tokens,
                position_ids=positions,
                past_key_values=self._cache,
                use_cache=True,
                shared_prefix=self.prefix,
                **kwargs,
            )
        self._length += fed.shape[1]
        return output

    def fork(self, parents: Tensor) -> None:  # (R',)
        """There are as many rows as `parents`, each of which goes on from what that row, of its prefix, was fed."""
        self._cache.reorder_cache(parents)  # type: ignore[arg-type]


class RepeatedPrefix:
    """Continuations of a model whose attention cannot share a prefix: each row carries its own copy of its memory."""

    has_own_threads = False

    def __init__(self, model: PreTrainedModel, prefix: Tensor, num_samples: int) -> None:
        self.model = model
        output = model.base_model(input_ids=prefix, use_cache=True)
        # Recurrent models call their memory `cache_params`.
        name = "cache_params" if "cache_params" in output else "past_key_values"
        self._past = {name: output[name]}
        self.fork(torch.arange(len(prefix), device=prefix.device).repeat_interleave(num_samples))

    def feed(self, tokens: Tensor, *, model: PreTrainedModel | None = None, **kwargs: Any) -> Any:
        return (model or self.model)(input_ids=tokens, use_cache=True, **self._past, **kwargs)

    def fork(self, parents: Tensor) -> None:  # (R',)
        """There are as many rows as `parents`, each of which goes on from what that row was fed."""
        for memory in self._past.values():
            memory.reorder_cache(parents)


class PrefixSharing:
    """Whether a model's attention can be split into prefix and continuation: tried once, on a few tokens."""

    def __init__(self, model: PreTrainedModel) -> None:
        self._backbone: Any = model.base_model
        self._possible: bool | None = None

    def allows(self, total_length: int) -> bool:
        """Whether sequences of this length, a sliding window apart, come out as from the plain forward pass."""
        window = getattr(self._backbone.config.get_text_config(), "sliding_window", None)
        if window is not None and total_length > window:
            return False
        if self._possible is None:
            self._possible = self._backbone._can_set_attn_implementation() and self._equals_plain()
        return self._possible

    @torch.no_grad()
    def _equals_plain(self) -> bool:
        backbone = self._backbone
        vocab_size = backbone.get_input_embeddings().weight.shape[0]
        tokens = torch.arange(12, device=backbone.device).view(2, 6) * 7919 % vocab_size
        plain = backbone(input_ids=tokens, use_cache=False).last_hidden_state[:, 5:]
        try:
            rows = Continuations(backbone, prefill(backbone, tokens[:, :3])[1], 2, 3)
            rows.feed(tokens[:, 3:5])
            split = rows.feed(tokens[:, 5:]).last_hidden_state
        except (
            AttributeError,
            IndexError,
            KeyError,
            NotImplementedError,
            RuntimeError,
            TypeError,
            ValueError,
        ):
            return False
        return torch.allclose(split, plain, atol=1e-2, rtol=1e-2)


class _OwnLayer(CacheLayerMixin):
    """Keys and values of the continuations' own tokens in one layer, in memory set aside once."""

    keys: Tensor
    values: Tensor

    def __init__(self, prefix_length: int, max_length: int) -> None:
        super().__init__()
        self.prefix_length = prefix_length
        self.max_length = max_length
        self.length = 0

    def lazy_initialization(self, key_states: Tensor, value_states: Tensor) -> None:
        rows, heads, _, width = key_states.shape
        self.keys = key_states.new_empty(rows, heads, self.max_length, width)
        self.values = value_states.new_empty(rows, heads, self.max_length, value_states.shape[-1])
        self.is_initialized = True

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
        end = self.length + key_states.shape[2]
        self.keys[:, :, self.length : end] = key_states
        self.values[:, :, self.length : end] = value_states
        self.length = end
        return self.keys[:, :, :end], self.values[:, :, :end]

    def reorder_cache(self, beam_idx: Tensor) -> None:
        if self.is_initialized:
            self.keys, self.values = (self._forked(memory, beam_idx) for memory in (self.keys, self.values))

    def _forked(self, memory: Tensor, rows: Tensor) -> Tensor:
        forked = memory.new_empty(len(rows), *memory.shape[1:])
        forked[:, :, : self.length] = memory[rows, :, : self.length]
        return forked

    def get_seq_length(self) -> int:
        return self.prefix_length + self.length

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        return self.length + query_length, 0

    def get_max_length(self) -> int:
        return self.max_length


class _OwnCache(Cache):
    def __init__(self, num_layers: int, prefix_length: int, max_length: int) -> None:
        super().__init__(layers=[_OwnLayer(prefix_length, max_length) for _ in range(num_layers)])


def _attend(
    module: Any,
    query: Tensor,  # (R, H, T, d)
    key: Tensor,  # (R, Hkv, S, d), the continuation's own, the T new ones last
    value: Tensor,  # (R, Hkv, S, d)
    attention_mask: Tensor | None,
    scaling: float | None = None,
    shared_prefix: SharedPrefix | None = None,
    softcap: float | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """softmax([q K_prefix^T, q K_own^T]) [V_prefix; V_own], causal within the continuation."""
    assert shared_prefix is not None
    prefix_key, prefix_value = shared_prefix.keys[module.layer_idx], shared_prefix.values[module.layer_idx]
    rows, num_heads, num_new, width = query.shape
    num_prefixes, kv_heads, prefix_length, _ = prefix_key.shape
    num_own = key.shape[2]
    samples, group = rows // num_prefixes, num_heads // kv_heads
    query = query.reshape(rows, kv_heads, group * num_new, width)
    query = query * (scaling if scaling is not None else width**-0.5)

    stacked = query.view(num_prefixes, samples, kv_heads, -1, width).transpose(1, 2)
    stacked = stacked.reshape(num_prefixes, kv_heads, -1, width)  # (B, Hkv, K G T, d)
    on_prefix = stacked @ prefix_key.transpose(-1, -2)  # (B, Hkv, K G T, P)
    on_prefix = on_prefix.view(num_prefixes, kv_heads, samples, -1, prefix_length).transpose(1, 2)
    on_prefix = on_prefix.reshape(rows, kv_heads, -1, prefix_length)
    on_own = query @ key.transpose(-1, -2)  # (R, Hkv, G T, S)
    scores = torch.cat((on_prefix, on_own), -1)
    if softcap is not None:
        scores = torch.tanh(scores / softcap) * softcap
    if num_new > 1:
        future = torch.ones(num_new, num_own, dtype=torch.bool, device=query.device).triu(num_own - num_new + 1)
        scores[..., prefix_length:].masked_fill_(future.repeat(group, 1), -torch.inf)
    probs = scores.softmax(-1, dtype=torch.float32).to(query.dtype)

    own = probs[..., prefix_length:] @ value  # (R, Hkv, G T, d)
    stacked = probs[..., :prefix_length].view(num_prefixes, samples, kv_heads, -1, prefix_length).transpose(1, 2)
    stacked = stacked.reshape(num_prefixes, kv_heads, -1, prefix_length) @ prefix_value  # (B, Hkv, K G T, d)
    shared = stacked.view(num_prefixes, kv_heads, samples, -1, width).transpose(1, 2).reshape(own.shape)
    output = (own + shared).view(rows, num_heads, num_new, width)
    return output.transpose(1, 2), None


AttentionInterface.register(_ATTENTION, _attend)
