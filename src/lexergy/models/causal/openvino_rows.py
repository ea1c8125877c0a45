"""Continuations of a shared prefix on a Llama by OpenVINO: `llama_rows`' numbers, several times as fast at few rows.

With few rows a step is as long as it takes to read the weights, and OpenVINO's products read them at nearly the
memory's rate. The compiled graphs hold weights of their own, packed: as much memory again as the model itself.
"""

from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import openvino as ov
import torch
from torch import Tensor
from transformers import LlamaForCausalLM, PreTrainedModel

from lexergy.core.vocabulary import NEVER
from lexergy.models.causal.llama_rows import LlamaStep
from lexergy.models.causal.openvino_graph import PER_ROW, head_graph, layers_graph
from lexergy.models.causal.shared_prefix import SharedPrefix

_ROOM = 8  # own tokens that are made room for at once


class _Compiled(NamedTuple):
    key: tuple[int, ...]
    layers: ov.CompiledModel
    head: ov.CompiledModel


_KEPT: WeakKeyDictionary[LlamaForCausalLM, _Compiled] = WeakKeyDictionary()


def compiled(model: LlamaForCausalLM) -> _Compiled:
    """The model's graphs, compiled again when its weights or the number of threads have changed."""
    # Training the weights in place raises their version.
    weights = list(model.parameters())
    version = (sum(weight._version for weight in weights), hash(tuple(weight.data_ptr() for weight in weights)))
    key = (torch.get_num_threads(), *version)
    known = _KEPT.get(model)
    if known is None or known.key != key:
        _KEPT.pop(model, None)  # before new weights are packed
        known = None
        settings = {
            "INFERENCE_NUM_THREADS": torch.get_num_threads(),
            "NUM_STREAMS": 1,
            "ENABLE_CPU_PINNING": False,  # else all processes share the first core
            "INFERENCE_PRECISION_HINT": "f32",
            "DYNAMIC_QUANTIZATION_GROUP_SIZE": 0,
        }
        with torch.no_grad():
            graphs = [ov.Core().compile_model(graph(model), "CPU", settings) for graph in (layers_graph, head_graph)]
        _KEPT[model] = known = _Compiled(key, *graphs)
    return known


class OpenVinoContinuations:
    """R = B * K continuations, K for each of B shared prefixes in turn, each fed one token at a time."""

    def __init__(self, model: LlamaForCausalLM, prefix: SharedPrefix, num_rows: int, max_length: int) -> None:
        graphs = compiled(model)
        self._layers, self._head = graphs.layers.create_infer_request(), graphs.head.create_infer_request()
        self._model = model
        self._rows = num_rows
        self._length = 0
        self._max_length = max_length
        config: Any = model.config
        kv_heads, width = config.num_key_value_heads, model.model.layers[0].self_attn.head_dim
        group = config.num_attention_heads // kv_heads
        batch, samples = prefix.num_prefixes, num_rows // prefix.num_prefixes
        self._shape = (len(prefix.keys), 2, batch, kv_heads, samples)
        self._own = torch.empty(*self._shape, 0, width)  # (layers, 2, B, Hkv, K, S, d)
        self._states = torch.empty(num_rows, config.hidden_size)
        positions = torch.arange(prefix.length, prefix.length + max_length)[None]
        self._turns = torch.stack(model.model.rotary_emb(self._states, positions))[:, 0].float()  # (2, C, d)
        self._turn = torch.empty(2, width)
        self._lengths = torch.tensor([prefix.length, 0, 1], dtype=torch.int32)
        self._held: dict[int, np.ndarray] = {}  # memory that the graph reads, which it does not hold itself
        shapes = (
            (batch, samples, kv_heads, group + 2, width),
            (batch, kv_heads, samples, group, -1),
            (batch, kv_heads, samples * group, -1),
        )
        patterns = [torch.tensor(shape, dtype=torch.int32) for shape in shapes]
        for place, tensor in enumerate((self._states, *self._turn, *patterns, self._lengths)):
            self._give(place, tensor)
        for index, pair in enumerate(zip(prefix.keys, prefix.values, strict=True)):
            for which, memory in enumerate(pair):
                self._give(PER_ROW + 4 * index + which, memory.contiguous())
        self._make_room()

    def feed(
        self,
        tokens: Tensor,  # (R, 1)
        *,
        model: PreTrainedModel | None = None,
        output_hidden_states: bool = False,
    ) -> LlamaStep:
        """Feed one token to each row. With the base model as `model`, the logits are left out.

        The next call overwrites logits and states.
        """
        embedded = self._model.model.embed_tokens(tokens[:, 0])
        self._states.copy_(embedded)
        self._turn.copy_(self._turns[:, self._length])
        self._layers.infer()
        seen = _output(self._layers, 0).view(-1, self._rows, 1, self._states.shape[1])  # (layers, R, 1, D)
        self._keep(_output(self._layers, 1).view(*self._shape, -1))
        states = (embedded.unsqueeze(1), *seen) if output_hidden_states else ()
        if model is self._model.model:
            return LlamaStep(None, states)
        self._head.set_input_tensor(0, ov.Tensor(seen[-1, :, 0].numpy(), shared_memory=True))
        self._head.infer()
        return LlamaStep(_output(self._head, 0).unsqueeze(1), states)

    def _keep(self, new: Tensor) -> None:  # (layers, 2, B, Hkv, K, d)
        """The keys and values of the token that was fed stand among the rows' own from now on."""
        if self._length == self._own.shape[-2]:
            self._make_room()
        self._own[..., self._length, :] = new
        self._mask[self._length] = 0
        self._length += 1

    def _make_room(self) -> None:
        """For a few more own tokens; memory is read whole, so that there is never much more than is used."""
        used, width = self._own.shape[-2:]
        room = min(used + _ROOM, self._max_length)
        wider = torch.zeros(*self._shape, room, width)
        wider[..., :used, :] = self._own
        self._own = wider
        self._lengths[1] = room
        self._mask = torch.full((room,), NEVER)
        self._mask[:used] = 0
        self._give(PER_ROW - 1, self._mask)
        for index, layer in enumerate(self._own):
            for which, memory in enumerate(layer):
                self._give(PER_ROW + 4 * index + 2 + which, memory)

    def _give(self, place: int, memory: Tensor) -> None:
        """Let the graph read this input where it lies."""
        self._held[place] = memory.numpy()
        self._layers.set_input_tensor(place, ov.Tensor(self._held[place], shared_memory=True))


def _output(request: ov.InferRequest, place: int) -> Tensor:
    return torch.from_numpy(request.get_output_tensor(place).data)
