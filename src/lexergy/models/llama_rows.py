"""Continuations of a shared prefix on a Llama, one token at a time: the generic path's numbers, about twice as fast.

The generic path (`shared_prefix.Continuations`) runs any architecture through transformers. Here the same
arithmetic is written out with states in columns, (D, R) for R rows, so that each linear layer is one matrix
product `W X` at nearly the machine's full rate, each residual sum is part of a product, and nothing else is done
twice. SmolLM2 and the LMs trained here are Llamas.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from transformers import LlamaForCausalLM, PreTrainedModel

from lexergy.models.shared_prefix import SharedPrefix


class LlamaStep(NamedTuple):
    """What `feed` gives back, under the names that transformers uses."""

    logits: Tensor | None  # (R, 1, V)
    hidden_states: tuple[Tensor, ...]  # per layer (R, 1, D), from the embeddings to the normalised last


def is_plain_llama(model: PreTrainedModel) -> bool:
    """Whether the arithmetic below is the model's: on a CPU, without biases, with one rotary scaling for all lengths."""
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
    """R = B * K continuations, K for each of B shared prefixes in turn, each fed one token at a time."""

    def __init__(self, model: LlamaForCausalLM, prefix: SharedPrefix, num_rows: int, max_length: int) -> None:
        config = model.config
        self._model = model
        self._prefix = prefix
        self._rows = num_rows
        self._samples = num_rows // prefix.num_prefixes
        self._kv_heads = config.num_key_value_heads
        self._group = config.num_attention_heads // config.num_key_value_heads
        self._width = model.model.layers[0].self_attn.head_dim
        self._length = 0
        shape = (len(model.model.layers), self._kv_heads, num_rows, max_length, self._width)
        self._keys = torch.empty(shape)  # (layers, Hkv, R, C, d)
        self._values = torch.empty(shape)
        positions = torch.arange(prefix.length, prefix.length + max_length)[None]
        cos, sin = model.model.rotary_emb(self._keys, positions)  # (1, C, d), both halves alike
        self._key_turn = torch.stack((cos, sin))[:, 0, :, : self._width // 2, None]  # (2, C, d / 2, 1)
        self._query_turn = self._key_turn * model.model.layers[0].self_attn.scaling

    def feed(
        self,
        tokens: Tensor,  # (R, 1)
        *,
        model: PreTrainedModel | None = None,
        output_hidden_states: bool = False,
    ) -> LlamaStep:
        """Feed one token to each row. With the base model as `model`, the logits are left out."""
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
        logits = None if model is backbone else (self._model.lm_head.weight @ last).t().unsqueeze(1)
        return LlamaStep(logits, tuple(seen))

    def _attend(self, index: int, attention: nn.Module, states: Tensor) -> Tensor:  # (D, R) -> (H d, R)
        """softmax([q K_prefix^T, q K_own^T] / sqrt(d)) [V_prefix; V_own], in the order (Hkv, R, G, d)."""
        kv_heads, group, width, end = self._kv_heads, self._group, self._width, self._length + 1
        query = self._rotated(attention.q_proj.weight @ states, self._query_turn)  # (H, d, R)
        query = query.view(kv_heads, group, width, self._rows).permute(0, 3, 1, 2).contiguous()  # (Hkv, R, G, d)
        key = self._rotated(attention.k_proj.weight @ states, self._key_turn)  # (Hkv, d, R)
        value = (attention.v_proj.weight @ states).view(kv_heads, width, self._rows)
        keys, values = self._keys[index, :, :, :end], self._values[index, :, :, :end]  # (Hkv, R, S, d)
        keys[:, :, -1], values[:, :, -1] = key.transpose(1, 2), value.transpose(1, 2)

        flat = query.view(-1, group, width)  # (Hkv R, G, d)
        on_own = torch.bmm(flat, keys.flatten(0, 1).transpose(1, 2))  # (Hkv R, G, S)
        on_prefix = self._by_prefix(query) @ self._prefix_part(self._prefix.keys[index]).transpose(-1, -2)
        on_prefix = on_prefix.view(-1, group, self._prefix.length)  # (Hkv R, G, P)
        probs = torch.cat((on_prefix, on_own), -1).softmax(-1)
        shared = self._by_prefix(probs[..., : self._prefix.length]) @ self._prefix_part(self._prefix.values[index])
        output = torch.baddbmm(shared.view(-1, group, width), probs[..., self._prefix.length :], values.flatten(0, 1))
        output = output.view(kv_heads, self._rows, group, width).permute(0, 2, 3, 1)  # (Hkv, G, d, R)
        return output.reshape(-1, self._rows)

    def _by_prefix(self, rows: Tensor) -> Tensor:
        """(Hkv, R, G, x) or (Hkv R, G, x) -> (Hkv, B, K G, x): one matrix per prefix."""
        return rows.reshape(self._kv_heads, self._prefix.num_prefixes, self._samples * self._group, rows.shape[-1])

    def _prefix_part(self, part: Tensor) -> Tensor:
        return part.transpose(0, 1)  # (B, Hkv, P, d) -> (Hkv, B, P, d)

    def _rotated(self, projected: Tensor, turn: Tensor) -> Tensor:
        """Rotary positions: every row stands at the same one. (H d, R) -> (H, d, R)."""
        first, second = projected.view(-1, 2, self._width // 2, self._rows).unbind(1)  # (H, d/2, R)
        cos, sin = turn[:, self._length]  # (d / 2, 1)
        turned = torch.empty_like(projected).view(-1, 2, self._width // 2, self._rows)
        torch.addcmul(first * cos, second, sin, value=-1, out=turned[:, 0])
        torch.addcmul(second * cos, first, sin, out=turned[:, 1])
        return turned.view(-1, self._width, self._rows)


def _normalised(states: Tensor, norm: nn.Module) -> Tensor:  # (D, R) -> (D, R)
    """RMS norm of each column."""
    mean_square = torch.linalg.vector_norm(states, dim=0).square_().div_(len(states))
    scale = mean_square.add_(norm.variance_epsilon).rsqrt_()  # (R,)
    return (states * scale).mul_(norm.weight.unsqueeze(-1))
