"""A Llama as two graphs of OpenVINO: its layers, and its head.

The graphs are built from the model's own weights, without a file between. Attention is OpenVINO's paged one: keys and
values lie in blocks of `BLOCK` tokens, and each row has a list of the blocks that it reads, so that rows share those of
their prefix. New keys and values are written into the blocks by the operator itself.
"""

from collections.abc import Collection
from typing import Any, NamedTuple

import numpy as np
import openvino as ov
from openvino import opset15 as ops
from openvino.op import _PagedAttentionExtension as PagedAttention
from torch import Tensor, cat
from transformers import LlamaForCausalLM

from lexergy.models.causal.runtimes.openvino_weights import Constant, plain, whole

BLOCK = 32  # tokens; the operator knows no other on a CPU
PER_STEP = 8  # inputs of the layers before those of each layer, in the order of `_Step`


class _Step(NamedTuple):
    """What all layers read. N tokens are fed, some to each of R rows."""

    states: Any  # (N, D)
    cos: Any  # (N, 1, 1, d), or (1, 1, 1, d) where all tokens stand at one position
    sin: Any  # the same
    past: Any  # (R,), how many tokens each row has before these
    begins: Any  # (R + 1,), where each row's tokens begin among the N
    blocks: Any  # (M,), the blocks of each row in turn
    blocks_begin: Any  # (R + 1,), where each row's blocks begin among the M
    longest: Any  # (), the most tokens that a row has with these


def layers_graph(model: LlamaForCausalLM, constant: Constant, shown: Collection[int]) -> ov.Model:
    """Inputs: those of `_Step`, then of each layer the blocks of keys and of values, (blocks, Hkv, BLOCK, d).

    Outputs: the states (N, D) after so many layers, for each number that is `shown`, in ascending order; then the last,
    normalised. Each output is a copy of its own.
    """
    attention: Any = model.model.layers[0].self_attn
    kv_heads, width = model.config.num_key_value_heads, attention.head_dim
    floats, counts = ov.Type.f32, ov.Type.i32
    turn = [-1, 1, 1, width]
    shapes = [[-1, model.config.hidden_size], turn, turn, *[[-1]] * 4, []]
    step = _Step(*map(ops.parameter, shapes, [*[floats] * 3, *[counts] * 5]))
    memories: list[Any] = []
    seen: list[Any] = []
    states = step.states
    for number, layer in enumerate(model.model.layers, 1):
        memory = [ops.parameter([-1, kv_heads, BLOCK, width], floats) for _ in range(2)]
        attended = _attend(layer.self_attn, _normalised(states, layer.input_layernorm), step, memory, constant)
        states = ops.add(states, attended)
        inner = _normalised(states, layer.post_attention_layernorm)
        gate = ops.swish(_linear(inner, layer.mlp.gate_proj.weight, constant))
        up = _linear(inner, layer.mlp.up_proj.weight, constant)
        states = ops.add(states, _linear(ops.multiply(gate, up), layer.mlp.down_proj.weight, constant))
        memories += memory
        if number in shown:
            seen.append(states)
    seen.append(_normalised(states, model.model.norm))
    return ov.Model(seen, [*step, *memories], "layers")


def for_rows(graph: ov.Model, rows: int) -> ov.Model:
    """The layers for one token of each of so many rows, and nothing else: no shape needs to be found in each step."""
    shapes = {place: given.partial_shape for place, given in enumerate(graph.inputs)}
    states, cos, sin, past, begins, _, blocks_begin = range(7)  # the places of `_Step`
    for place in (states, cos, sin):
        shapes[place] = ov.PartialShape([1, *list(shapes[place])[1:]])
    shapes[states][0] = rows
    shapes[past] = ov.PartialShape([rows])
    shapes[begins] = shapes[blocks_begin] = ov.PartialShape([rows + 1])
    graph.reshape(shapes)
    return graph


def head_graph(model: LlamaForCausalLM, constant: Constant) -> ov.Model:
    """The last states (R, D) -> logits (R, V)."""
    states = ops.parameter([-1, model.config.hidden_size], ov.Type.f32)
    return ov.Model([_linear(states, model.lm_head.weight, constant)], [states], "head")


def _attend(attention: Any, states: Any, step: _Step, memory: list[Any], constant: Constant) -> Any:  # (N, D) -> (N, D)
    kv_heads, width = attention.config.num_key_value_heads, attention.head_dim
    heads = attention.config.num_attention_heads
    weights = cat((attention.q_proj.weight, attention.k_proj.weight, attention.v_proj.weight))
    projected = _linear(states, weights, constant)  # (N, (H + 2 Hkv) d)
    turning, value = _split(projected, (heads + kv_heads) * width, kv_heads * width)
    query, key = _split(_rotated(turning, step, heads + kv_heads, width), heads * width, kv_heads * width)
    attended = _paged(query, key, value, step, memory, attention.scaling, (kv_heads, width))
    return _linear(attended, attention.o_proj.weight, constant)


def _split(values: Any, *widths: int) -> Any:
    return ops.variadic_split(values, whole(1), whole(widths)).outputs()


def _rotated(projected: Any, step: _Step, heads: int, width: int) -> Any:  # (N, H d) -> (N, H d)
    """Rotary positions; OpenVINO knows this form as one operation."""
    by_head = ops.reshape(projected, whole([-1, heads, 1, width]), False)
    first, second = ops.variadic_split(by_head, whole(3), whole([width // 2, width // 2])).outputs()
    across = ops.concat([ops.multiply(second, _number(-1)), first], -1)
    turned = ops.add(ops.multiply(by_head, step.cos), ops.multiply(across, step.sin))
    return ops.reshape(turned, whole([-1, heads * width]), False)


def _paged(
    query: Any, key: Any, value: Any, step: _Step, memory: list[Any], scaling: float, heads: tuple[int, int]
) -> Any:
    """softmax(q K^T / sqrt(d)) V of each row over its blocks, into which the new keys and values are written first."""
    no_numbers, no_counts, no_bytes = (ops.constant(np.empty(0, kind)) for kind in (np.float32, np.int32, np.uint8))
    no_window, no_slopes = whole(0), no_numbers
    no_rotation = (no_counts, no_counts, no_numbers)  # of keys that were kept
    no_sparsity = (no_numbers, whole(0), whole(0))
    no_eviction = (whole(0), *[no_counts] * 4)
    inputs = (
        *(query, key, value, *memory, step.past, step.begins, step.blocks, step.blocks_begin),
        *(_number(scaling), no_window, no_slopes, step.longest, no_counts),
        *(*no_rotation, *no_sparsity, no_numbers, *no_eviction, no_bytes, no_counts),
    )
    paged = PagedAttention([node if isinstance(node, ov.Output) else node.output(0) for node in inputs])
    facts = paged.get_rt_info()
    facts["num_k_heads"], facts["k_head_size"] = heads
    facts["num_v_heads"], facts["v_head_size"] = heads
    return paged.output(0)


def _normalised(states: Any, norm: Any) -> Any:
    """RMS norm of each row; OpenVINO knows this form as one operation."""
    mean_square = ops.reduce_mean(ops.power(states, _number(2)), whole([-1]), True)
    scale = ops.divide(_number(1), ops.sqrt(ops.add(mean_square, _number(norm.variance_epsilon))))
    return ops.multiply(ops.multiply(states, scale), plain(norm.weight))


def _linear(states: Any, weight: Tensor, constant: Constant) -> Any:  # (R, in), (out, in) -> (R, out)
    return ops.matmul(states, constant(weight), False, True)


def _number(value: float) -> Any:
    return ops.constant(np.array(value, np.float32))
