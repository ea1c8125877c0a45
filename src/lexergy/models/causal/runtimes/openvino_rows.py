"""Prefixes and their continuations on a Llama by OpenVINO: torch's numbers, several times as fast at few rows.

With few rows a step is as long as it takes to read the weights, and OpenVINO's products read them at nearly the
memory's rate; of an LM that was read from a file of 4 or 8 bits they read those. With many rows the weights are kept
in float32, since then it takes longer to unpack them. Compiled graphs hold weights of their own: a quarter of the
model's memory again for calls with few rows, as much again as the model for calls with many.
"""

import weakref
from typing import Any, NamedTuple

import numpy as np
import openvino as ov
import torch
from torch import Tensor
from transformers import LlamaForCausalLM, PreTrainedModel

from lexergy.core.vocabulary import NEVER
from lexergy.models.causal.runtimes.llama_rows import LlamaStep
from lexergy.models.causal.runtimes.openvino_graph import PER_STEP, head_graph, layers_graph
from lexergy.models.causal.runtimes.openvino_weights import numbered
from lexergy.models.causal.runtimes.shared_prefix import Prefilled, SharedPrefix

MANY_ROWS = 16  # from here on unpacking weights takes longer than reading them
SETTINGS = {
    "NUM_STREAMS": 1,
    "ENABLE_CPU_PINNING": False,  # else all processes share the first core
    "INFERENCE_PRECISION_HINT": "f32",
    "DYNAMIC_QUANTIZATION_GROUP_SIZE": 0,
}
_ROOM = 8  # own tokens that are made room for at once


class OpenVinoSteps:
    """A Llama's graphs, compiled; `as_numbers` with the whole numbers behind its weights, where they have any."""

    def __init__(self, model: LlamaForCausalLM, as_numbers: bool) -> None:
        self.name = "openvino, as numbers" if as_numbers else "openvino"
        self._model = weakref.ref(model)  # the graphs are kept as long as the model, not the model as long as they
        with torch.no_grad():
            graphs = (layers_graph(model, as_numbers), head_graph(model, as_numbers))
        settings = {**SETTINGS, "INFERENCE_NUM_THREADS": torch.get_num_threads()}
        self.layers, self.head = (ov.Core().compile_model(graph, "CPU", settings) for graph in graphs)

    @property
    def model(self) -> LlamaForCausalLM:
        model = self._model()
        assert model is not None
        return model

    def prefill(self, prefix: Tensor) -> Prefilled:  # (B, P)
        """Rows that continue nothing are fed all their tokens at once."""
        layers: Any = self.model.model.layers
        attention = layers[0].self_attn
        nothing = torch.empty(len(prefix), attention.config.num_key_value_heads, 0, attention.head_dim)
        memory = [nothing] * len(layers)
        rows = self.rows(SharedPrefix(memory, memory), len(prefix), prefix.shape[1])
        states = rows.feed(prefix, model=self.model.model, output_hidden_states=True).hidden_states
        new = rows.new_keys_and_values()
        return Prefilled(rows.logits(states[-1][:, -1]), SharedPrefix(list(new[:, 0]), list(new[:, 1])))

    def rows(self, prefix: SharedPrefix, num_rows: int, max_length: int) -> "OpenVinoContinuations":
        return OpenVinoContinuations(self, prefix, num_rows, max_length)


class _Kept(NamedTuple):
    key: tuple[int, ...]
    has_numbers: bool
    steps: dict[bool, OpenVinoSteps]  # with numbers, without


_KEPT: weakref.WeakKeyDictionary[LlamaForCausalLM, _Kept] = weakref.WeakKeyDictionary()


def compiled(model: LlamaForCausalLM, num_rows: int) -> OpenVinoSteps:
    """The model's graphs for calls of so many rows, compiled again when its weights or the threads have changed."""
    # Training the weights in place raises their version.
    weights = list(model.parameters())
    version = (sum(weight._version for weight in weights), hash(tuple(weight.data_ptr() for weight in weights)))
    key = (torch.get_num_threads(), *version)
    known = _KEPT.get(model)
    if known is None or known.key != key:
        last: Any = model.model.layers[-1]
        _KEPT[model] = known = _Kept(key, numbered(last.mlp.down_proj.weight) is not None, {})
    as_numbers = known.has_numbers and num_rows < MANY_ROWS
    if as_numbers not in known.steps:
        known.steps[as_numbers] = OpenVinoSteps(model, as_numbers)
    return known.steps[as_numbers]


class OpenVinoContinuations:
    """R = B * K continuations, K for each of B shared prefixes in turn, fed a few tokens at a time."""

    def __init__(self, steps: OpenVinoSteps, prefix: SharedPrefix, num_rows: int, max_length: int) -> None:
        self._layers, self._head = steps.layers.create_infer_request(), steps.head.create_infer_request()
        self._backbone = backbone = steps.model.model
        config: Any = backbone.config
        self._width = backbone.layers[0].self_attn.head_dim
        self._group = config.num_attention_heads // config.num_key_value_heads
        self._prefixes, self._kv_heads = prefix.num_prefixes, config.num_key_value_heads
        self._samples = num_rows // prefix.num_prefixes
        self._max_length = max_length
        self._length = 0
        self._unkept: Tensor | None = None  # new keys and values, which stand among a row's own at the next step
        self._held: dict[int, np.ndarray] = {}  # memory that the graph reads, which it does not hold itself
        positions = torch.arange(prefix.length, prefix.length + max_length)[None]
        self._turns = torch.cat(backbone.rotary_emb(prefix.keys[0], positions))  # cosines and sines (2, C, d)
        self._lengths = torch.tensor([prefix.length, 0, 0], dtype=torch.int32)  # P, S, T
        for index, pair in enumerate(zip(prefix.keys, prefix.values, strict=True)):
            for which, memory in enumerate(pair):
                self._give(PER_STEP + 4 * index + which, memory.contiguous())
        shape = (len(prefix.keys), 2, self._prefixes, self._kv_heads, self._samples, 0, self._width)
        self._own = torch.empty(shape)  # keys and values (layers, 2, B, Hkv, K, S, d)
        self._make_room(0)

    def feed(
        self,
        tokens: Tensor,  # (R, T)
        *,
        model: PreTrainedModel | None = None,
        output_hidden_states: bool = False,
    ) -> LlamaStep:
        """Feed the next tokens of each row. With the base model as `model`, the logits are left out.

        The next call overwrites logits and states.
        """
        embedded = self._backbone.embed_tokens(tokens)  # (R, T, D)
        seen = self._run(embedded)  # (layers, R, T, D)
        states = (embedded, *seen) if output_hidden_states else ()
        return LlamaStep(None if model is self._backbone else self.logits(seen[-1]), states)

    def logits(self, states: Tensor) -> Tensor:  # (..., D) -> (..., V)
        """Those of last states."""
        rows = states.reshape(-1, states.shape[-1]).contiguous().numpy()
        self._head.set_input_tensor(0, ov.Tensor(rows, shared_memory=True))
        self._head.infer()
        return _output(self._head, 0).view(*states.shape[:-1], -1)

    def new_keys_and_values(self) -> Tensor:
        """Those of the tokens that were fed last, (layers, 2, B, Hkv, K T, d); the next call overwrites them."""
        assert self._unkept is not None
        return self._unkept

    def reorder(self, index: Tensor) -> None:  # (R,)
        """Row r goes on from what row `index[r]`, of the same prefix, has been fed."""
        if self._unkept is not None:
            self._keep(self._unkept.unflatten(-2, (self._samples, -1)))
            self._unkept = None
        for prefix, places in enumerate(index.view(-1, self._samples) % self._samples):
            own = self._own[:, :, prefix, :, :, : self._length]  # (layers, 2, Hkv, K, S, d)
            own.copy_(own[:, :, :, places])  # where it lies, since the graph reads it there

    def _run(self, embedded: Tensor) -> Tensor:  # (R, T, D) -> (layers, R, T, D)
        if self._unkept is not None:
            self._keep(self._unkept.unflatten(-2, (self._samples, -1)))
        count = embedded.shape[1]
        if count != self._lengths[2]:
            self._lay_out(count)
        self._states.copy_(embedded.flatten(0, 1))
        self._turn.copy_(self._turns[:, None, self._length : self._length + count])
        self._layers.infer()
        new = _output(self._layers, 1)
        self._unkept = new.view(-1, 2, self._prefixes, self._kv_heads, new.shape[2], self._width)
        return _output(self._layers, 0).view(-1, *embedded.shape)

    def _lay_out(self, count: int) -> None:
        """How T tokens of each row are given to the graph, and which of them see which."""
        prefixes, kv_heads, samples = self._prefixes, self._kv_heads, self._samples
        group, width = self._group, self._width
        self._lengths[2] = count
        self._states = torch.empty(prefixes * samples * count, self._backbone.config.hidden_size)
        # Where one token is fed, all rows stand at the same position.
        self._turn = torch.empty(2, samples if count > 1 else 1, count, width)
        later = torch.full((count, count), NEVER).triu(1)
        shapes = (
            (prefixes, samples * count, kv_heads, group + 2, width),
            (prefixes, kv_heads, samples * count, group, width),
            (prefixes, kv_heads, samples * count * group, -1),
            (prefixes, kv_heads, samples, count * group, -1),
            (prefixes, kv_heads, samples, count, width),
        )
        turns = self._turn.view(2, 1, 1, -1, 1, width)
        for place, memory in enumerate((self._states, *turns, *map(_whole, shapes))):
            self._give(place, memory)
        self._give(PER_STEP - 1, later.repeat_interleave(group, 0))  # (T G, T)

    def _keep(self, new: Tensor) -> None:  # (layers, 2, B, Hkv, K, T, d)
        """The keys and values of tokens that were fed stand among the rows' own from now on."""
        end = self._length + new.shape[-2]
        if end > self._own.shape[-2]:
            self._make_room(min(max(end, self._own.shape[-2] + _ROOM), self._max_length))
        self._own[..., self._length : end, :] = new
        self._mask[self._length : end] = 0
        self._length = end

    def _make_room(self, room: int) -> None:
        """For so many own tokens. The graph reads it whole, so that it should not be much more than is used."""
        wider = torch.zeros(*self._own.shape[:-2], room, self._width)
        wider[..., : self._length, :] = self._own[..., : self._length, :]
        self._own = wider
        self._mask = torch.full((room,), NEVER)
        self._mask[: self._length] = 0
        self._lengths[1] = room
        self._give(PER_STEP - 3, self._lengths)
        self._give(PER_STEP - 2, self._mask)
        for index, layer in enumerate(self._own):
            for which, memory in enumerate(layer):
                self._give(PER_STEP + 4 * index + 2 + which, memory)

    def _give(self, place: int, memory: Tensor) -> None:
        """Let the graph read this input where it lies."""
        self._held[place] = memory.numpy()
        self._layers.set_input_tensor(place, ov.Tensor(self._held[place], shared_memory=True))


def _output(request: ov.InferRequest, place: int) -> Tensor:
    return torch.from_numpy(request.get_output_tensor(place).data)


def _whole(shape: tuple[int, ...]) -> Tensor:
    return torch.tensor(shape, dtype=torch.int32)
