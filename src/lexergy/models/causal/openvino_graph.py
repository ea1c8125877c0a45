"""One decoding step of a Llama as two graphs of OpenVINO: its layers, and its head.

The graphs are built from the model's own weights, without a file between, and compute in float32. The layers attend
as `llama_rows.LlamaContinuations` does, over a shared prefix and a row's own tokens, and give back the new keys and
values instead of keeping them.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import openvino as ov
from openvino import opset15 as ops
from torch import Tensor, cat
from transformers import LlamaForCausalLM

PER_ROW = 8  # inputs of the layers before those of each layer, in the order of `_Step`


class _Step(NamedTuple):
    """What all layers read. B prefixes, K rows of each, G query heads per key head, P prefix and S own tokens."""

    states: Any  # (R, D)
    cos: Any  # (d,)
    sin: Any  # (d,)
    projected: Any  # the shape (B, K, Hkv, G + 2, d)
    by_row: Any  # the shape (B, Hkv, K, G, -1)
    by_prefix: Any  # the shape (B, Hkv, K G, -1)
    lengths: Any  # (P, S, 1)
    mask: Any  # (S,), added to the scores of own tokens: very negative where none is yet


def layers_graph(model: LlamaForCausalLM) -> ov.Model:
    """Inputs: those of `_Step`, then of each layer the prefix's keys and values and the rows' own.

    Outputs: states (layers R, D), each layer's after the other, the last normalised; new keys and values
    (layers 2 B, Hkv, K, 1, d).
    """
    attention: Any = model.model.layers[0].self_attn
    kv_heads, width = model.config.num_key_value_heads, attention.head_dim
    floats, whole = ov.Type.f32, ov.Type.i32
    step = _Step(
        ops.parameter([-1, model.config.hidden_size], floats),
        ops.parameter([width], floats),
        ops.parameter([width], floats),
        ops.parameter([5], whole),
        ops.parameter([5], whole),
        ops.parameter([4], whole),
        ops.parameter([3], whole),
        ops.parameter([-1], floats),
    )
    memories: list[Any] = []
    new: list[Any] = []
    seen: list[Any] = []
    states = step.states
    for layer in model.model.layers:
        shared, own = [-1, kv_heads, -1, width], [-1, kv_heads, -1, -1, width]
        memory = [ops.parameter(shape, floats) for shape in (shared, shared, own, own)]
        attended, *kept = _attend(layer.self_attn, _normalised(states, layer.input_layernorm), step, memory)
        states = ops.add(states, attended)
        inner = _normalised(states, layer.post_attention_layernorm)
        gate = ops.swish(_linear(inner, layer.mlp.gate_proj.weight))
        up = _linear(inner, layer.mlp.up_proj.weight)
        states = ops.add(states, _linear(ops.multiply(gate, up), layer.mlp.down_proj.weight))
        memories += memory
        new += kept
        seen.append(states)
    seen[-1] = _normalised(states, model.model.norm)
    return ov.Model([ops.concat(seen, 0), ops.concat(new, 0)], [*step, *memories], "layers")


def head_graph(model: LlamaForCausalLM) -> ov.Model:
    """The last states (R, D) -> logits (R, V)."""
    states = ops.parameter([-1, model.config.hidden_size], ov.Type.f32)
    return ov.Model([_linear(states, model.lm_head.weight)], [states], "head")


def _attend(attention: Any, states: Any, step: _Step, memory: Sequence[Any]) -> tuple[Any, Any, Any]:
    """softmax([q K_prefix^T, q K_own^T, q k^T] / sqrt(d)) [V_prefix; V_own; v], and the new k and v."""
    prefix_keys, prefix_values, own_keys, own_values = memory
    kv_heads, width = attention.config.num_key_value_heads, attention.head_dim
    group = attention.config.num_attention_heads // kv_heads

    projected = ops.reshape(_linear(states, _by_key_head(attention)), step.projected, False)  # (B, K, Hkv, G + 2, d)
    projected = ops.transpose(projected, _whole([0, 2, 1, 3, 4]))  # (B, Hkv, K, G + 2, d)
    turning, value = ops.variadic_split(projected, _whole(3), _whole([group + 1, 1])).outputs()
    query, key = ops.variadic_split(_rotated(turning, step, width), _whole(3), _whole([group, 1])).outputs()

    on_prefix = ops.matmul(ops.reshape(query, step.by_prefix, False), prefix_keys, False, True)  # (B, Hkv, K G, P)
    on_own = ops.add(ops.matmul(query, own_keys, False, True), step.mask)  # (B, Hkv, K, G, S)
    on_itself = ops.reduce_sum(ops.multiply(query, key), _whole([-1]), True)  # (B, Hkv, K, G, 1)
    scores = ops.concat([ops.reshape(on_prefix, step.by_row, False), on_own, on_itself], 4)
    probs = ops.variadic_split(ops.softmax(scores, 4), _whole(4), step.lengths).outputs()

    shared = ops.matmul(ops.reshape(probs[0], step.by_prefix, False), prefix_values, False, False)  # (B, Hkv, K G, d)
    own = ops.add(ops.matmul(probs[1], own_values, False, False), ops.reshape(shared, step.by_row, False))
    output = ops.add(own, ops.multiply(probs[2], value))  # (B, Hkv, K, G, d)
    output = ops.transpose(output, _whole([0, 2, 1, 3, 4]))
    output = ops.reshape(output, _whole([-1, kv_heads * group * width]), False)  # (R, H d)
    return _linear(output, attention.o_proj.weight), key, value


def _by_key_head(attention: Any) -> Tensor:
    """The weights of queries, keys and values as one, (Hkv (G + 2) d, D): each key head after its queries."""
    kv_heads, width = attention.config.num_key_value_heads, attention.head_dim
    projections = (attention.q_proj.weight * attention.scaling, attention.k_proj.weight, attention.v_proj.weight)
    weights = [weight.view(kv_heads, -1, width, weight.shape[-1]) for weight in projections]
    return cat(weights, 1).flatten(0, 2)


def _rotated(heads: Any, step: _Step, width: int) -> Any:  # (..., d)
    """Rotary positions, of which every row stands at the same one."""
    first, second = ops.split(heads, _whole(4), 2).outputs()
    turned = ops.concat([ops.negative(second), first], 4)
    return ops.add(ops.multiply(heads, step.cos), ops.multiply(turned, step.sin))


def _normalised(states: Any, norm: Any) -> Any:
    """RMS norm of each row; OpenVINO knows this form as one operation."""
    mean_square = ops.reduce_mean(ops.power(states, _number(2)), _whole([-1]), True)
    scale = ops.divide(_number(1), ops.sqrt(ops.add(mean_square, _number(norm.variance_epsilon))))
    return ops.multiply(ops.multiply(states, scale), _weights(norm.weight))


def _linear(states: Any, weight: Tensor) -> Any:  # (R, in), (out, in) -> (R, out)
    return ops.matmul(states, _weights(weight), False, True)


def _weights(weight: Tensor) -> Any:
    return ops.constant(weight.detach().contiguous().numpy(), shared_memory=True)


def _whole(values: int | Sequence[int]) -> Any:
    return ops.constant(np.array(values, np.int32))


def _number(value: float) -> Any:
    return ops.constant(np.array(value, np.float32))
