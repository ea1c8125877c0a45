"""Prefixes and their continuations on a Llama by OpenVINO: torch's numbers, several times as fast at few rows.

The operator of attention has several ways of summing: one for a sequence's single token, one for many, one where there
are fewer sequences than threads. In float32 they differ by rounding. In bfloat16 and 8 bits rounding is no small
matter, so that each token is there a sequence of its own, which reads the same blocks as the others of its row, and
there are at least as many of them as threads: then a token's logits are the same, bit for bit, however it is fed.
"""

import weakref
from typing import Any, NamedTuple, Protocol

import openvino as ov
import torch
from torch import Tensor
from transformers import LlamaForCausalLM, PreTrainedModel

from lexergy.models.causal.runtimes.llama_rows import LlamaStep
from lexergy.models.causal.runtimes.openvino_graph import BLOCK, PER_STEP
from lexergy.models.causal.runtimes.shared_prefix import SharedPrefix


class _Sequences(NamedTuple):
    """What the operator of attention is told of N tokens in Q sequences."""

    past: Tensor  # (Q,), how many tokens each has before these
    begins: Tensor  # (Q + 1,), where each begins among the N
    blocks: Tensor  # (M,), the blocks of each in turn
    blocks_begin: Tensor  # (Q + 1,)
    longest: Tensor  # (), the most tokens that one has with these


class Layers:
    """A compiled graph's own inputs and outputs, for one user of it."""

    def __init__(self, graph: ov.CompiledModel) -> None:
        self.request = graph.create_infer_request()
        self._held: dict[int, Any] = {}  # memory that the graph reads, which it does not hold itself

    def give(self, place: int, memory: Tensor) -> None:
        """Let the graph read this input where it lies."""
        self._held[place] = (memory, _shared(memory))
        self.request.set_input_tensor(place, self._held[place][1])

    def put(self, place: int, values: Tensor) -> None:
        """These values into the memory of an input, new memory only where their shape is new: to tell of it is dear."""
        known = self._held.get(place)
        if known is not None and known[0].shape == values.shape:
            known[0].copy_(values)
        else:
            self.give(place, values.clone(memory_format=torch.contiguous_format))


class Compiled(Protocol):
    """A Llama's graphs, in numbers whose rounding matters or, `is_exact`, does not."""

    layers: ov.CompiledModel
    head: ov.CompiledModel
    is_exact: bool
    threads: int
    shown: frozenset[int]  # the layers between the first and the last whose states the graph hands out

    @property
    def model(self) -> LlamaForCausalLM: ...

    def blocks(self, count: int) -> Tensor:
        """For keys and values of that many times `BLOCK` tokens, (layers, 2, blocks, Hkv, BLOCK, d)."""

    def give_back(self, memory: Tensor) -> None:
        """What `blocks` gave is not read any more."""


class OpenVinoContinuations:
    """R = B * W continuations, W for each of B shared prefixes in turn, fed a few tokens at a time.

    Blocks of keys and values: first those of the prefixes that are full, then those of places, of which each row has
    one. What is left of a prefix stands at the beginning of its rows' own blocks. The last block is nobody's.
    """

    has_own_threads = True
    _sequences: _Sequences  # as the graph was told last

    def __init__(
        self,
        steps: Compiled,
        prefix: SharedPrefix,
        num_rows: int,
        max_length: int,
        fixed: ov.CompiledModel | None = None,
    ) -> None:
        """`fixed`: the layers for one token of each of `num_rows` rows, to the same bits."""
        self._head = steps.head.create_infer_request()
        self._any = self._last = Layers(steps.layers)
        self._fixed = None if fixed is None else Layers(fixed)
        self._backbone = backbone = steps.model.model
        self._shown = sorted(steps.shown)
        self._one_by_one, self._least = not steps.is_exact, 1 if steps.is_exact else steps.threads
        self._prefixes, self._places = prefix.num_prefixes, torch.arange(num_rows)
        self._full, rest = divmod(prefix.length, BLOCK)
        self._own_blocks = -(-(rest + max_length) // BLOCK)
        self._most, self._start = num_rows, prefix.length
        self._length, self._fed, self._last_count = 0, 0, 0
        positions = torch.arange(prefix.length, prefix.length + max_length)[None]
        turns = torch.cat(backbone.rotary_emb(torch.empty(0), positions))  # cosines and sines (2, C, d)
        self._turns = turns.view(2, max_length, 1, 1, -1)
        shared, own_count = self._prefixes * self._full, num_rows * self._own_blocks
        self._blocks = steps.blocks(shared + own_count + 1)  # (layers, 2, blocks, Hkv, BLOCK, d)
        weakref.finalize(self, steps.give_back, self._blocks).atexit = False
        self._own = self._blocks[:, :, shared:-1].unflatten(2, (num_rows, self._own_blocks))
        for layers in filter(None, (self._any, self._fixed)):
            for place, memory in enumerate(self._blocks.flatten(0, 1)):
                layers.give(PER_STEP + place, memory)
        self._put(prefix, rest)
        self._table = self._blocks_of_rows()

    def feed(
        self,
        tokens: Tensor,  # (R, T)
        *,
        model: PreTrainedModel | None = None,
        output_hidden_states: bool = False,
    ) -> LlamaStep:
        """Feed the next tokens of each row. With the base model as `model`, the logits are left out.

        States are those that the graph shows. The next call overwrites them and the logits.
        """
        embedded = self._backbone.embed_tokens(tokens)  # (R, T, D)
        self._run(embedded)
        last = self.last_states().view(embedded.shape)
        seen = {}
        if output_hidden_states:
            inner = {layer: self._states(place).view(embedded.shape) for place, layer in enumerate(self._shown)}
            seen = {0: embedded, **inner, len(self._blocks): last}
        return LlamaStep(None if model is self._backbone else self.logits(last), seen)

    def last_states(self) -> Tensor:
        """Those of the tokens that were fed last, normalised, (R T, D); the next call overwrites them."""
        return self._states(len(self._shown))

    def logits(self, states: Tensor) -> Tensor:  # (..., D) -> (..., V)
        """Those of last states; the next call overwrites them."""
        return self.logits_of(self._head, states)

    @staticmethod
    def logits_of(head: ov.InferRequest, states: Tensor) -> Tensor:  # (..., D) -> (..., V)
        """Last states through a compiled head."""
        rows = states.reshape(-1, states.shape[-1]).contiguous()
        head.set_input_tensor(0, _shared(rows))
        head.infer()
        return _output(head, 0).view(*states.shape[:-1], -1)

    def keys_and_values(self) -> Tensor:
        """Those of all that was fed to rows that continue nothing, (layers, 2, R, Hkv, S, d)."""
        assert self._start == 0
        by_head = self._own.transpose(3, 4).flatten(4, 5)  # (layers, 2, R, Hkv, own blocks * BLOCK, d)
        return by_head[..., : self._length, :].clone(memory_format=torch.contiguous_format)

    def fork(self, parents: Tensor) -> None:  # (R',)
        """There are as many rows as `parents`, each of which goes on from what that row, of its prefix, was fed."""
        places = self._places[parents]
        first = _is_first(places)  # who keeps the place; the others need a copy of what it holds
        free = torch.ones(self._own.shape[2], dtype=torch.bool)
        free[places] = False
        sources = places[~first]
        places[~first] = copies = free.nonzero().flatten()[: len(sources)]
        used = -(-(self._start % BLOCK + self._length) // BLOCK)
        for layer in self._own[:, :, :, :used]:
            layer[:, copies] = layer[:, sources]
        self._places, self._last_count = places, 0
        self._table = self._blocks_of_rows()

    def _blocks_of_rows(self) -> Tensor:  # (R, blocks)
        shared, rows = self._prefixes * self._full, len(self._places)
        full = torch.arange(shared).view(self._prefixes, 1, self._full).expand(-1, rows // self._prefixes, -1)
        own = shared + self._places[:, None] * self._own_blocks + torch.arange(self._own_blocks)
        return torch.cat((full.flatten(0, 1), own), 1).int()

    def _states(self, place: int) -> Tensor:  # (R T, D)
        return _output(self._last.request, place)[: self._fed]

    def _run(self, embedded: Tensor) -> None:  # (R, T, D)
        rows, count = embedded.shape[:2]
        self._fed = rows * count
        missing = max(0, self._least - self._fed)
        states = embedded.flatten(0, 1)
        if missing:
            states = torch.nn.functional.pad(states, (0, 0, 0, missing))
        turns = self._turns[:, self._length : self._length + count]  # (2, T, 1, 1, d)
        if count > 1:  # where one token is fed, all rows stand at the same position
            turns = torch.nn.functional.pad(turns.repeat(1, rows, 1, 1, 1), (0, 0) * 3 + (0, missing))
        layers = self._any if self._fixed is None or count > 1 or rows < self._most else self._fixed
        for place, memory in enumerate((states, *turns)):
            layers.put(place, memory)
        self._tell_sequences(layers, count, missing)
        layers.request.infer()
        self._length += count
        self._last, self._last_count = layers, count

    def _tell_sequences(self, layers: Layers, count: int, missing: int) -> None:
        if count == self._last_count == 1 and (self._start + self._length) % BLOCK:
            self._sequences.past.add_(1)  # one token more in the same blocks; the graph reads this where it lies
            self._sequences.longest.add_(1)
            return
        self._sequences = self._single_tokens(count, missing) if self._one_by_one else self._whole_rows(count)
        for place, memory in enumerate(self._sequences, PER_STEP - len(self._sequences)):
            layers.give(place, memory)

    def _whole_rows(self, count: int) -> _Sequences:
        past = self._start + self._length
        used = -(-(past + count) // BLOCK)
        every = torch.arange(len(self._places) + 1, dtype=torch.int32)
        pasts = torch.full((len(self._places),), past, dtype=torch.int32)
        longest = torch.tensor(past + count, dtype=torch.int32)
        blocks = self._table[:, :used].flatten().contiguous()  # of a single column flatten makes a view
        return _Sequences(pasts, every * count, blocks, every * used, longest)

    def _single_tokens(self, count: int, missing: int) -> _Sequences:
        """Each token a sequence, and so many more that read nobody's block."""
        first = self._start + self._length
        past = torch.arange(first, first + count, dtype=torch.int32)  # (T,)
        used = past // BLOCK + 1
        columns = torch.cat([torch.arange(number) for number in used.tolist()])
        nobodys = self._blocks.shape[2] - 1
        blocks = torch.nn.functional.pad(self._table[:, columns].flatten(), (0, missing), value=nobodys)
        numbers = torch.nn.functional.pad(used.repeat(len(self._places)), (0, missing), value=1)  # (N,), of blocks
        every = torch.arange(len(numbers) + 1, dtype=torch.int32)
        ends = torch.nn.functional.pad(numbers.cumsum(0, dtype=torch.int32), (1, 0))
        pasts = torch.nn.functional.pad(past.repeat(len(self._places)), (0, missing))
        return _Sequences(pasts, every, blocks, ends, torch.tensor(first + count, dtype=torch.int32))

    def _put(self, prefix: SharedPrefix, rest: int) -> None:
        """The prefix's keys and values into the blocks."""
        cut, samples = self._full * BLOCK, len(self._places) // self._prefixes
        for layer, pair in enumerate(zip(prefix.keys, prefix.values, strict=True)):
            for which, memory in enumerate(pair):  # (B, Hkv, P, d)
                full = memory[:, :, :cut].unflatten(2, (self._full, BLOCK)).transpose(1, 2).flatten(0, 1)
                self._blocks[layer, which, : len(full)] = full
                own = self._own[layer, which, :, 0].unflatten(0, (self._prefixes, samples))  # (B, K, Hkv, BLOCK, d)
                own[..., :rest, :] = memory[:, None, :, cut:]


def _is_first(values: Tensor) -> Tensor:  # (N,) -> (N,) bool
    """Whether no value before it is the same."""
    _, kinds = values.unique(return_inverse=True)
    first = torch.full((len(values),), len(values)).scatter_reduce_(0, kinds, torch.arange(len(values)), "amin")
    return first[kinds] == torch.arange(len(values))


def _shared(memory: Tensor) -> ov.Tensor:
    """A contiguous tensor, where it lies."""
    if memory.dtype == torch.bfloat16:  # which numpy does not have
        return ov.Tensor(memory.view(torch.int16).numpy(), list(memory.shape), ov.Type.bf16)
    return ov.Tensor(memory.numpy(), shared_memory=True)


def _output(request: ov.InferRequest, place: int) -> Tensor:
    return torch.from_numpy(request.get_output_tensor(place).data)
