"""Continuations of a shared prefix on a Llama, one token at a time: the generic path's numbers, about twice as fast.

The generic path (`shared_prefix.Continuations`) runs any architecture through transformers. Here the same
arithmetic is written out with states in columns, (D, R) for R rows, so that each linear layer is one matrix
product `W X` at nearly the machine's full rate, each residual sum is part of a product, and nothing else is done
twice. SmolLM2 and the LMs trained here are Llamas.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from transformers import LlamaForCausalLM, PreTrainedModel

from lexergy.models.causal.runtimes.shared_prefix import SharedPrefix


class LlamaStep(NamedTuple):
    """What `feed` gives back, under the names that transformers uses."""

    logits: Tensor | None  # (R, 1, V)
    hidden_states: Mapping[int, Tensor]  # of layers (R, 1, D), from 0, the embeddings, to the normalised last


def is_plain_llama(model: PreTrainedModel) -> bool:
    """Whether the arithmetic below is the model's: on a CPU, no biases, one rotary scaling for all lengths."""
    if type(model) is not LlamaForCausalLM or model.device.type != "cpu" or model.dtype != torch.float32:
        return False
    config = model.config
    rope = (config.rope_parameters or {}).get("rope_type", "default")
    linears = [module for module in model.modules() if isinstance(module, nn.Linear)]
    return (
        rope in ("default", "linear", "llama3")  # "dynamic" and "longrope" depend on the length seen
        and config.hidden_act == "silu"
        and all(type(linear) is nn.Linear and linear.bias is None for linear in linears)
    )


class LlamaContinuations:
    """R = B * W continuations, W for each of B shared prefixes in turn, each fed one token at a time."""

    has_own_threads = False

    def __init__(self, model: LlamaForCausalLM, prefix: SharedPrefix, num_rows: int, max_length: int) -> None:
        config: Any = model.config
        self._model = model
        self._prefix = prefix
        self._rows = num_rows
        self._samples = num_rows // prefix.num_prefixes
        self._kv_heads = config.num_key_value_heads
        self._group = config.num_attention_heads // config.num_key_value_heads
        self._width = model.model.layers[0].self_attn.head_dim
        self._length = 0
        shape = (prefix.num_prefixes, self._kv_heads, self._samples, max_length, self._width)
        self._keys = [torch.empty(shape) for _ in model.model.layers]  # (B, Hkv, W, C, d)
        self._values = [torch.empty(shape) for _ in model.model.layers]
        self._logits = torch.empty(model.lm_head.weight.shape[0] * num_rows)  # new memory each step would cost 10 %
        positions = torch.arange(prefix.length, prefix.length + max_length)[None]
        cos, sin = model.model.rotary_emb(self._keys[0], positions)  # (1, C, d), both halves alike
        self._key_turn = torch.stack((cos, sin))[:, 0, :, : self._width // 2, None]  # (2, C, d / 2, 1)
        self._query_turn = self._key_turn * model.model.layers[0].self_attn.scaling

    def feed(
        self,
        tokens: Tensor,  # (R, 1)
        *,
        model: PreTrainedModel | None = None,
        output_hidden_states: bool = False,
    ) -> LlamaStep:
        """Feed one token to each row. With the base model as `model`, the logits are left out.

        The next call overwrites the logits.
        """
        backbone = self._model.model
        states = backbone.embed_tokens(tokens[:, 0]).t().contiguous()  # (D, R)
        seen = [states.t().unsqueeze(1).clone()] if output_hidden_states else []
        for index, layer in enumerate(backbone.layers):
            attended = self._attend(index, layer.self_attn, _normalised(states, layer.input_layernorm))
            states.addmm_(layer.self_attn.o_proj.weight, attended)
            inner = _normalised(states, layer.post_attention_layernorm)
            gate = nn.functional.silu(layer.mlp.gate_proj.weight @ inner, inplace=True)
            states.addmm_(layer.mlp.down_proj.weight, gate.mul_(layer.mlp.up_proj.weight @ inner))
            if output_hidden_states and index + 1 < len(backbone.layers):
                seen.append(states.t().unsqueeze(1).clone())
        self._length += 1
        last = _normalised(states, backbone.norm)
        if output_hidden_states:
            seen.append(last.t().unsqueeze(1))
        if model is backbone:
            return LlamaStep(None, dict(enumerate(seen)))
        head = self._model.lm_head.weight
        logits = torch.mm(head, last, out=self._logits[: len(head) * self._rows].view(len(head), -1))
        return LlamaStep(logits.t().unsqueeze(1), dict(enumerate(seen)))

    def fork(self, parents: Tensor) -> None:  # (R',)
        """There are as many rows as `parents`, each of which goes on from what that row, of its prefix, was fed."""
        places = parents.view(self._prefix.num_prefixes, -1) % self._samples  # (B, W')
        self._rows, self._samples = len(parents), places.shape[1]
        for memories in (self._keys, self._values):
            for layer, memory in enumerate(memories):
                memories[layer] = _forked(memory, places, self._length)

    def _attend(self, index: int, attention: Any, states: Tensor) -> Tensor:  # (D, R) -> (H d, R)
        """softmax([q K_prefix^T, q K_own^T] / sqrt(d)) [V_prefix; V_own], in the order (B, Hkv, K, G, d)."""
        group, width, end = self._group, self._width, self._length + 1
        query = self._rotated(attention.q_proj.weight @ states, self._query_turn)  # (H d, R)
        query = self._by_row(query, group).contiguous()  # (B, Hkv, K, G, d)
        keys, values = self._keys[index][..., :end, :], self._values[index][..., :end, :]  # (B, Hkv, W, S, d)
        keys[..., -1:, :] = self._by_row(self._rotated(attention.k_proj.weight @ states, self._key_turn), 1)
        values[..., -1:, :] = self._by_row(attention.v_proj.weight @ states, 1)

        prefix_length = self._prefix.length
        on_own = torch.bmm(query.view(-1, group, width), keys.flatten(0, 2).transpose(1, 2))  # (B Hkv K, G, S)
        on_prefix = query.flatten(2, 3) @ self._prefix.keys[index].transpose(-1, -2)  # (B, Hkv, K G, P)
        probs = torch.cat((on_prefix.view(*on_own.shape[:2], prefix_length), on_own), -1).softmax(-1)
        shared = probs[..., :prefix_length].reshape(on_prefix.shape) @ self._prefix.values[index]  # (B, Hkv, K G, d)
        output = torch.baddbmm(shared.view(-1, group, width), probs[..., prefix_length:], values.flatten(0, 2))
        output = output.view(*query.shape).permute(1, 3, 4, 0, 2)  # (Hkv, G, d, B, K)
        return output.reshape(-1, self._rows)

    def _by_row(self, projected: Tensor, group: int) -> Tensor:
        """(Hkv G d, R) -> (B, Hkv, K, G, d)."""
        heads = projected.view(self._kv_heads, group, self._width, self._prefix.num_prefixes, self._samples)
        return heads.permute(3, 0, 4, 1, 2)

    def _rotated(self, projected: Tensor, turn: Tensor) -> Tensor:
        """Rotary positions, of which every row stands at the same one: (H d, R) -> (H d, R)."""
        first, second = projected.view(-1, 2, self._width // 2, self._rows).unbind(1)  # (H, d/2, R)
        cos, sin = turn[:, self._length]  # (d / 2, 1)
        turned = torch.empty_like(projected).view(-1, 2, self._width // 2, self._rows)
        torch.addcmul(first * cos, second, sin, value=-1, out=turned[:, 0])
        torch.addcmul(second * cos, first, sin, out=turned[:, 1])
        return turned.view(projected.shape)


def _forked(memory: Tensor, places: Tensor, length: int) -> Tensor:  # (B, Hkv, W, C, d), (B, W') -> (B, Hkv, W', C, d)
    forked = memory.new_empty(*memory.shape[:2], places.shape[1], *memory.shape[3:])
    for of_prefix, source, own in zip(forked, memory, places, strict=True):
        of_prefix[..., :length, :] = source[:, own, :length]
    return forked


def _normalised(states: Tensor, norm: Any) -> Tensor:  # (D, R) -> (D, R)
    """RMS norm of each column."""
    mean_square = torch.linalg.vector_norm(states, dim=0).square_().div_(len(states))
    scale = mean_square.add_(norm.variance_epsilon).rsqrt_()  # (R,)
    return (states * scale).mul_(norm.weight.unsqueeze(-1))
