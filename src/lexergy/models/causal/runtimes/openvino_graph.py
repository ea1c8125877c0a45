"""A Llama as two graphs of OpenVINO: its layers, and its head.

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

from lexergy.models.causal.runtimes.openvino_weights import constant_of, whole

PER_STEP = 11  # inputs of the layers before those of each layer, in the order of `_Step`


class _Step(NamedTuple):
    """What all layers read. T tokens are fed to each of K rows of B prefixes, N = B K T in all.

    G query heads share a key head. P tokens are the prefix's, S a row's own of earlier steps, T those of this one.
    """

    states: Any  # (N, D)
    cos: Any  # (1, 1, 1 or K T, 1, d)
    sin: Any  # the same
    projected: Any  # the shape (B, K T, Hkv, G + 2, d)
    by_token: Any  # the shape (B, Hkv, K T, G, d)
    by_prefix: Any  # the shape (B, Hkv, K T G, -1)
    by_row: Any  # the shape (B, Hkv, K, T G, -1)
    new: Any  # the shape (B, Hkv, K, T, d)
    lengths: Any  # (P, S, T)
    own_mask: Any  # (S,), added to the scores of own tokens: very negative where none is yet
    new_mask: Any  # (T G, T), added to the scores of new tokens: very negative where one is later


def layers_graph(model: LlamaForCausalLM, as_numbers: bool) -> ov.Model:
    """Inputs: those of `_Step`, then of each layer the prefix's keys and values and the rows' own.

    Outputs: states (layers N, D), each layer's after the other, the last normalised; new keys and values
    (layers 2 B, Hkv, K T, 1, d).
    """
    attention: Any = model.model.layers[0].self_attn
    kv_heads, width = model.config.num_key_value_heads, attention.head_dim
    floats, counts = ov.Type.f32, ov.Type.i32
    turn = [1, 1, -1, 1, width]
    shapes = [[-1, model.config.hidden_size], turn, turn, [5], [5], [4], [5], [5], [3], [-1], [-1, -1]]
    kinds = [*[floats] * 3, *[counts] * 6, *[floats] * 2]
    step = _Step(*map(ops.parameter, shapes, kinds))
    memories: list[Any] = []
    new: list[Any] = []
    seen: list[Any] = []
    states = step.states
    for layer in model.model.layers:
        shared, own = [-1, kv_heads, -1, width], [-1, kv_heads, -1, -1, width]
        memory = [ops.parameter(shape, floats) for shape in (shared, shared, own, own)]
        attended, *kept = _attend(layer.self_attn, _normalised(states, layer.input_layernorm), step, memory, as_numbers)
        states = ops.add(states, attended)
        inner = _normalised(states, layer.post_attention_layernorm)
        gate = ops.swish(_linear(inner, layer.mlp.gate_proj.weight, as_numbers))
        up = _linear(inner, layer.mlp.up_proj.weight, as_numbers)
        states = ops.add(states, _linear(ops.multiply(gate, up), layer.mlp.down_proj.weight, as_numbers))
        memories += memory
        new += kept
        seen.append(states)
    seen[-1] = _normalised(states, model.model.norm)
    return ov.Model([ops.concat(seen, 0), ops.concat(new, 0)], [*step, *memories], "layers")


def head_graph(model: LlamaForCausalLM, as_numbers: bool) -> ov.Model:
    """The last states (R, D) -> logits (R, V)."""
    states = ops.parameter([-1, model.config.hidden_size], ov.Type.f32)
    return ov.Model([_linear(states, model.lm_head.weight, as_numbers)], [states], "head")


def _attend(attention: Any, states: Any, step: _Step, memory: Sequence[Any], as_numbers: bool) -> tuple[Any, Any, Any]:
    """softmax([q K_prefix^T, q K_own^T, q K_new^T] / sqrt(d)) [V_prefix; V_own; V_new], and the new ones."""
    prefix_keys, prefix_values, own_keys, own_values = memory
    kv_heads, width = attention.config.num_key_value_heads, attention.head_dim
    group = attention.config.num_attention_heads // kv_heads

    projected = ops.reshape(_linear(states, _by_key_head(attention), as_numbers), step.projected, False)
    projected = ops.transpose(projected, whole([0, 2, 1, 3, 4]))  # (B, Hkv, K T, G + 2, d)
    turning, value = ops.variadic_split(projected, whole(3), whole([group + 1, 1])).outputs()
    query, key = ops.variadic_split(_rotated(turning, step, width), whole(3), whole([group, 1])).outputs()
    by_row = ops.reshape(query, step.by_row, False)  # (B, Hkv, K, T G, d)
    new_keys, new_values = (ops.reshape(memory, step.new, False) for memory in (key, value))  # (B, Hkv, K, T, d)

    on_prefix = ops.matmul(ops.reshape(query, step.by_prefix, False), prefix_keys, False, True)  # (B, Hkv, K T G, P)
    on_own = ops.add(ops.matmul(by_row, own_keys, False, True), step.own_mask)  # (B, Hkv, K, T G, S)
    on_new = ops.add(ops.matmul(by_row, new_keys, False, True), step.new_mask)  # (B, Hkv, K, T G, T)
    scores = ops.concat([ops.reshape(on_prefix, step.by_row, False), on_own, on_new], 4)
    probs = ops.variadic_split(ops.softmax(scores, 4), whole(4), step.lengths).outputs()

    shared = ops.matmul(ops.reshape(probs[0], step.by_prefix, False), prefix_values, False, False)
    own = ops.add(ops.matmul(probs[1], own_values, False, False), ops.matmul(probs[2], new_values, False, False))
    output = ops.add(own, ops.reshape(shared, step.by_row, False))  # (B, Hkv, K, T G, d)
    output = ops.transpose(ops.reshape(output, step.by_token, False), whole([0, 2, 1, 3, 4]))
    output = ops.reshape(output, whole([-1, kv_heads * group * width]), False)  # (N, H d)
    return _linear(output, attention.o_proj.weight, as_numbers), key, value


def _by_key_head(attention: Any) -> Tensor:
    """The weights of queries, keys and values as one, (Hkv (G + 2) d, D): each key head after its queries."""
    kv_heads, width = attention.config.num_key_value_heads, attention.head_dim
    projections = (attention.q_proj.weight * attention.scaling, attention.k_proj.weight, attention.v_proj.weight)
    weights = [weight.view(kv_heads, -1, width, weight.shape[-1]) for weight in projections]
    return cat(weights, 1).flatten(0, 2)


def _rotated(heads: Any, step: _Step, width: int) -> Any:  # (..., d)
    """Rotary positions."""
    first, second = ops.split(heads, whole(4), 2).outputs()
    turned = ops.concat([ops.negative(second), first], 4)
    return ops.add(ops.multiply(heads, step.cos), ops.multiply(turned, step.sin))


def _normalised(states: Any, norm: Any) -> Any:
    """RMS norm of each row; OpenVINO knows this form as one operation."""
    mean_square = ops.reduce_mean(ops.power(states, _number(2)), whole([-1]), True)
    scale = ops.divide(_number(1), ops.sqrt(ops.add(mean_square, _number(norm.variance_epsilon))))
    return ops.multiply(ops.multiply(states, scale), constant_of(norm.weight, False))


def _linear(states: Any, weight: Tensor, as_numbers: bool) -> Any:  # (R, in), (out, in) -> (R, out)
    return ops.matmul(states, constant_of(weight, as_numbers), False, True)


def _number(value: float) -> Any:
    return ops.constant(np.array(value, np.float32))
