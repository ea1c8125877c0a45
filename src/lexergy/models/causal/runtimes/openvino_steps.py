"""A Llama's graphs, compiled by OpenVINO: for few rows or many, in float32, in bfloat16 or in 8 bits.

With few rows a step is as long as it takes to read the weights, and OpenVINO's products read them at nearly the
memory's rate; of a float32 LM that was read from a file of 4 or 8 bits they read those. With more rows the weights are
kept in float32, since then it takes longer to unpack them. Compiled graphs hold weights of their own: a quarter of the
model's memory again for calls with few rows, as much again as the model for calls with many, half of it in bfloat16 and
a quarter in 8 bits. The model's own, where they are mapped from a file, go back to the system until torch reads them.

A graph for any number of rows finds the shapes of its four hundred parts anew in each step, which takes a millisecond:
a tenth of a step of few rows. So when one number of few rows is asked for again and again, the layers are compiled for
just that number as well, a copy of their weights, and taken where they give the same bits.

In bfloat16 the LM is another one: its logits are some .09 away from those of float32, and as far from those of any
other order of summation. In 8 bits, where states are rounded before each product, 32 numbers by one scale, they are .2
away. So there is one order only, whatever the number of rows, tokens fed at once, and threads
(`OpenVinoContinuations`), and all that is sampled, scored or read goes through the same graph.
"""

import math
import mmap
import weakref
from collections import Counter
from collections.abc import Collection
from functools import lru_cache
from typing import Any, NamedTuple

import openvino as ov
import torch
from openvino import opset15 as ops
from torch import Tensor
from transformers import LlamaForCausalLM

from lexergy.models.causal.runtimes.llama_rows import LlamaStep
from lexergy.models.causal.runtimes.openvino_graph import BLOCK, for_rows, head_graph, layers_graph
from lexergy.models.causal.runtimes.openvino_rows import OpenVinoContinuations
from lexergy.models.causal.runtimes.openvino_weights import BLOCK as BLOCK_OF_WEIGHTS
from lexergy.models.causal.runtimes.openvino_weights import Constant, as_numbers, in_eight_bits, numbered, plain
from lexergy.models.causal.runtimes.shared_prefix import Prefilled, SharedPrefix
from lexergy.models.inference.pages import give_back
from lexergy.recipes.sections.runtime import Precision

SPARE_BYTES = 2**30  # kept for the next rows' keys and values
SETTINGS = {
    "NUM_STREAMS": 1,
    "ENABLE_CPU_PINNING": False,  # else all processes share the first core
}
TRIED = 8  # tokens
FEW_ROWS = 32
WORTH_FIXING = 2000  # steps: as many as win back the time that another graph is compiled in


class _Arithmetic(NamedTuple):
    """What a precision is to OpenVINO."""

    hint: str
    memory: torch.dtype  # of keys and values
    group: int  # how many numbers of a state are rounded to eight bits by one scale; 0: they are not
    deviation: float  # the most that logits may be away from torch's, in parts of their spread


ARITHMETIC: dict[Precision, _Arithmetic] = {
    "float32": _Arithmetic("f32", torch.float32, 0, 1e-3),
    "bfloat16": _Arithmetic("bf16", torch.bfloat16, 0, 0.3),
    "int8": _Arithmetic("f32", torch.float32, BLOCK_OF_WEIGHTS, 0.3),
}


@lru_cache
def many_rows() -> int:
    """From so many rows on unpacking weights takes longer than reading them.

    With AVX-512 a step of 8 rows is shorter with whole numbers on an Intel Xeon, and half as long again on an AMD EPYC.
    """
    if torch.backends.cpu.get_cpu_capability() != "AVX512":
        return 8
    return 48 if "Intel" in ov.Core().get_property("CPU", "FULL_DEVICE_NAME") else 5


@lru_cache
def computes_in(precision: Precision) -> bool:
    """Whether the processor has such products; else OpenVINO would compute in float32 without a word."""
    if precision == "bfloat16":
        return "BF16" in ov.Core().get_property("CPU", "OPTIMIZATION_CAPABILITIES")
    return precision == "float32" or _rounds_states()


def _rounds_states() -> bool:
    """Whether a product comes out as that of rounded states does: by a third of a step or so."""
    states = torch.linspace(0.3, 1, 2 * BLOCK_OF_WEIGHTS)[None]  # (1, in)
    product = product_in_eight_bits(states, torch.eye(2 * BLOCK_OF_WEIGHTS))
    return bool((product - states).abs().max() > 1e-4)


def product_in_eight_bits(states: Tensor, weight: Tensor) -> Tensor:  # (R, in), (out, in) -> (R, out)
    """One linear layer as the graphs of an LM in int8 compute it."""
    given = ops.parameter([-1, states.shape[1]], ov.Type.f32)
    graph = ov.Model([ops.matmul(given, in_eight_bits(weight), False, True)], [given], "product")
    arithmetic = ARITHMETIC["int8"]
    settings = {"INFERENCE_PRECISION_HINT": arithmetic.hint, "DYNAMIC_QUANTIZATION_GROUP_SIZE": arithmetic.group}
    return torch.from_numpy(ov.Core().compile_model(graph, "CPU", settings)(states.numpy())[0])


class Form(NamedTuple):
    """How a model is compiled; `as_numbers`: with the whole numbers behind its weights."""

    precision: Precision
    as_numbers: bool

    @property
    def name(self) -> str:
        precision = "" if self.precision == "float32" else f", {self.precision}"
        return f"openvino{precision}{', as numbers' if self.as_numbers else ''}"

    @property
    def constant(self) -> Constant:
        """What its matrices are in the graph."""
        if self.precision == "int8":
            return in_eight_bits
        return as_numbers if self.as_numbers else plain


class _Fixed(NamedTuple):
    """Layers for one number of rows."""

    num_rows: int
    layers: ov.CompiledModel | None  # None: they give other bits than those for any number


class OpenVinoSteps:
    """A Llama's layers and its head."""

    def __init__(self, model: LlamaForCausalLM, form: Form, shown: frozenset[int]) -> None:
        self.name = form.name
        self.shown = shown
        arithmetic = ARITHMETIC[form.precision]
        self.dtype = arithmetic.memory
        self.is_exact = form.precision == "float32"
        self.threads = torch.get_num_threads()
        self._spare: Tensor | None = None
        self._steps_of: Counter[int] = Counter()  # by number of rows
        self._fixed: _Fixed | None = None
        self._model = weakref.ref(model)  # the graphs are kept as long as the model, not the model as long as they
        precision = {
            "INFERENCE_PRECISION_HINT": arithmetic.hint,
            "KV_CACHE_PRECISION": arithmetic.hint,
            "DYNAMIC_QUANTIZATION_GROUP_SIZE": arithmetic.group,
        }
        self._constant, self._settings = form.constant, {**precision, "INFERENCE_NUM_THREADS": self.threads}
        with torch.no_grad():
            expected = model(input_ids=self._tried, use_cache=False).logits[:, -1]  # (1, V)
            self.layers = self._compiled(self._layers_graph())
            self.head = self._compiled(head_graph(model, form.constant))
            self._check(self.prefill(self._tried).logits, expected, arithmetic.deviation)
        give_back(model)

    def _layers_graph(self) -> ov.Model:
        return layers_graph(self.model, self._constant, self.shown)

    def _compiled(self, graph: ov.Model) -> ov.CompiledModel:
        give_back(self.model)  # what the graph has, or will read again a matrix at a time
        return ov.Core().compile_model(graph, "CPU", SETTINGS | self._settings)

    @property
    def _tried(self) -> Tensor:  # (1, T)
        return torch.arange(TRIED)[None] % self.model.config.vocab_size

    @staticmethod
    def _check(logits: Tensor, expected: Tensor, most: float) -> None:
        """Refuse graphs that compute something else, as an operator of another version might."""
        deviation = float((logits - expected).square().mean().sqrt() / expected.std())
        if not deviation <= most:
            raise RuntimeError(f"its logits deviate from the model's by {deviation:.2g} of their spread")

    @property
    def model(self) -> LlamaForCausalLM:
        model = self._model()
        assert model is not None
        return model

    def prefill(self, prefix: Tensor) -> Prefilled:  # (B, P)
        """Rows that continue nothing are fed all their tokens at once."""
        rows = self._from_nothing(prefix)
        rows.feed(prefix, model=self.model.model)
        last = rows.last_states().unflatten(0, prefix.shape)[:, -1]
        new = rows.keys_and_values()
        return Prefilled(rows.logits(last).clone(), SharedPrefix(list(new[:, 0]), list(new[:, 1])))

    def read(self, rows: Tensor, with_states: bool = False) -> LlamaStep:  # (B, L)
        """Whole rows at once."""
        return self._from_nothing(rows).feed(rows, output_hidden_states=with_states)

    def last_states(self, rows: Tensor) -> Tensor:  # (B, L) -> (B, L, D)
        """Those that the head reads."""
        fed = self._from_nothing(rows)
        fed.feed(rows, model=self.model.model)
        return fed.last_states().unflatten(0, rows.shape)

    def logits(self, states: Tensor) -> Tensor:  # (n, D) -> (n, V)
        """Those of last states."""
        return OpenVinoContinuations.logits_of(self.head.create_infer_request(), states)

    def rows(self, prefix: SharedPrefix, num_rows: int, max_length: int) -> OpenVinoContinuations:
        return OpenVinoContinuations(self, prefix, num_rows, max_length, self._fixed_for(num_rows, max_length))

    def reading(self, prefix: SharedPrefix, num_rows: int, max_length: int) -> OpenVinoContinuations:
        """As many tokens at once as there are."""
        return OpenVinoContinuations(self, prefix, num_rows, max_length)

    def _fixed_for(self, num_rows: int, max_length: int) -> ov.CompiledModel | None:
        """The layers for just so many rows, once that is worth their time and memory; there is one such graph."""
        if num_rows > FEW_ROWS:
            return None
        if self._fixed is None or self._fixed.num_rows != num_rows:
            self._steps_of[num_rows] += max_length
            if self._steps_of[num_rows] < WORTH_FIXING:
                return None
            self._steps_of.clear()
            self._fixed = None  # its weights go before others come
            self._fixed = self._fixed_to(num_rows)
        return self._fixed.layers

    @torch.no_grad()
    def _fixed_to(self, num_rows: int) -> _Fixed:
        least = 1 if self.is_exact else self.threads
        try:
            layers = self._compiled(for_rows(self._layers_graph(), max(num_rows, least)))
        except RuntimeError:  # another version may not know the operators so; the others compute the same
            return _Fixed(num_rows, None)
        give_back(self.model)
        prefix = self.prefill(self._tried).shared
        tokens = torch.arange(num_rows)[:, None] % self.model.config.vocab_size

        def states(graph: ov.CompiledModel | None) -> Tensor:
            rows = OpenVinoContinuations(self, prefix, num_rows, 1, graph)
            rows.feed(tokens, model=self.model.model)
            return rows.last_states().clone()

        return _Fixed(num_rows, layers if torch.equal(states(None), states(layers)) else None)

    def blocks(self, count: int) -> Tensor:
        """For keys and values of that many times `BLOCK` tokens, (layers, 2, blocks, Hkv, BLOCK, d)."""
        layers, heads, width = self._memory_shape
        shape = (layers, 2, count, heads, BLOCK, width)
        memory, self._spare = self._spare, None
        if memory is None or len(memory) < math.prod(shape):
            memory = self._new_memory(math.prod(shape))
        return memory[: math.prod(shape)].view(shape)

    @torch.inference_mode(False)  # memory of that mode could not be used outside it
    def give_back(self, memory: Tensor) -> None:
        """What `blocks` gave is not read any more. Some is kept, since new memory is as dear as a step or two."""
        whole = memory.new_empty(0).set_(memory.untyped_storage())  # type: ignore[call-overload]
        if whole.nbytes <= SPARE_BYTES and (self._spare is None or len(self._spare) < len(whole)):
            self._spare = whole

    @torch.inference_mode(False)
    def _new_memory(self, count: int) -> Tensor:
        memory = mmap.mmap(-1, max(1, count) * self.dtype.itemsize)
        if hasattr(mmap, "MADV_HUGEPAGE"):
            memory.madvise(mmap.MADV_HUGEPAGE)  # else half of the time that it takes to fill it are page faults
        return torch.frombuffer(memory, dtype=self.dtype, count=count)

    def _from_nothing(self, rows: Tensor) -> OpenVinoContinuations:
        layers, heads, width = self._memory_shape
        memory = [torch.empty(len(rows), heads, 0, width, dtype=self.dtype)] * layers
        return self.reading(SharedPrefix(memory, memory), len(rows), rows.shape[1])

    @property
    def _memory_shape(self) -> tuple[int, int, int]:
        layers: Any = self.model.model.layers
        attention = layers[0].self_attn
        return len(layers), attention.config.num_key_value_heads, attention.head_dim


class _Kept(NamedTuple):
    key: tuple[int, ...]
    has_numbers: bool
    steps: dict[Form, OpenVinoSteps]


_KEPT: weakref.WeakKeyDictionary[LlamaForCausalLM, _Kept] = weakref.WeakKeyDictionary()


def compiled(
    model: LlamaForCausalLM, num_rows: int, precision: Precision = "float32", layers: Collection[int] = ()
) -> OpenVinoSteps:
    """The model's graphs for calls of so many rows, compiled again when its weights or the threads have changed.

    They show the states of these layers and of all that were ever asked for: each layer costs some time, and other
    graphs other copies of the weights.
    """
    # Training the weights in place raises their version.
    weights = list(model.parameters())
    version = (sum(weight._version for weight in weights), hash(tuple(weight.data_ptr() for weight in weights)))
    key = (torch.get_num_threads(), *version)
    known = _KEPT.get(model)
    if known is None or known.key != key:
        last: Any = model.model.layers[-1]
        _KEPT[model] = known = _Kept(key, numbered(last.mlp.down_proj.weight) is not None, {})
    form = Form(precision, known.has_numbers and num_rows < many_rows() and precision == "float32")
    kept = known.steps.pop(form, None)
    shown = frozenset(layers).intersection(range(1, len(model.model.layers))) | (kept.shown if kept else frozenset())
    if kept is None or kept.shown != shown:
        kept = None  # its weights go before others come
        kept = OpenVinoSteps(model, form, shown)
    known.steps[form] = kept
    return kept
