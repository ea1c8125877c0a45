"""Linear layers of a model that is only run, at nearly the full rate of the processor's matrix products.

Torch computes `x W^T` by MKL. On a processor with AVX-512 oneDNN does it up to twice as fast, since MKL takes the older
instructions on some of them; on others `(W x^T)^T`, the large factor on the left, is a third faster with a few hundred
rows (benchmarks/matrix_products.py). Which of the two it is depends on the processor, and for oneDNN on a weight in
float32 that lies as (out, in).
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from typing import Any

import torch
from torch import Tensor, nn
from transformers.activations import GELUActivation
from transformers.pytorch_utils import Conv1D

PACKED_BYTES = 2**31  # of weights kept in oneDNN's own order; a larger model's other layers are reordered at each use
_ROWS_OF_PACKING = 1024  # what the order is chosen for; it serves any number of rows
_PRODUCTS: ContextVar[torch.dtype] = ContextVar("products", default=torch.float32)


@contextmanager
def products_in(dtype: torch.dtype) -> Iterator[None]:
    """Let `fast_linears` round states and weights of float32 to this before each product; all else stays as it is."""
    token = _PRODUCTS.set(dtype)
    try:
        yield
    finally:
        _PRODUCTS.reset(token)


def has_products_of_bfloat16() -> bool:
    """Whether oneDNN has fast ones here."""
    return torch.backends.cpu.get_cpu_capability() == "AVX512" and torch.ops.mkldnn._is_mkldnn_bf16_supported()


@contextmanager
def fast_linears(*models: nn.Module, often: bool = False) -> Iterator[None]:
    """Let the models' linear layers compute the same numbers faster; with gradients they stay as they are.

    A layer used more than once within the context, which the first use knows if they are used `often`, keeps a
    reordered copy of its weight until the context ends, so that weights may change between two contexts but not within
    one. Contexts may stand in each other: the outer one counts.
    """
    with ExitStack() as stack:
        room = _Room(PACKED_BYTES)
        # Mixed precision has products of its own.
        as_they_are = torch.is_grad_enabled() or torch.is_autocast_enabled("cpu")
        for model in [] if as_they_are else models:
            layers = _cpu_linears(model)
            activations = _gelus(model) if layers else {}  # on a GPU nothing is to be done, token by token
            for layer in layers:
                if "forward" in vars(layer):  # a layer may be reached twice
                    continue
                fast = _FastLinear(layer, room, often)
                _run_by(layer, fast, stack)
                if layer in activations and fast.takes_gelu():
                    _run_by(activations[layer], _as_it_is, stack)
        yield


def _run_by(module: Any, forward: Any, stack: ExitStack) -> None:
    module.forward = forward
    stack.callback(delattr, module, "forward")


def _gelus(model: nn.Module) -> dict[Any, Any]:
    """The GELU that follows a linear layer in encoders of BERT's kind, by the layer: oneDNN computes both at once."""
    return {
        module.dense: module.intermediate_act_fn
        for module in model.modules()
        if type(getattr(module, "intermediate_act_fn", None)) is GELUActivation
        and type(getattr(module, "dense", None)) is nn.Linear
    }


def _as_it_is(states: Tensor) -> Tensor:
    return states


def _cpu_linears(model: nn.Module) -> list[Any]:
    return [
        layer
        for layer in model.modules()
        if type(layer) in (nn.Linear, Conv1D) and layer.weight.device.type == "cpu" and "forward" not in vars(layer)
    ]


class _Room:
    """How many bytes of packed weights there may still be."""

    def __init__(self, size: int) -> None:
        self.left = size

    def take(self, size: int) -> bool:
        fits = size <= self.left
        self.left -= size if fits else 0
        return fits


class _FastLinear:
    def __init__(self, layer: Any, room: _Room, often: bool) -> None:
        # Conv1D keeps its weight as (in, out), nn.Linear as (out, in).
        given = layer.weight.t() if isinstance(layer, Conv1D) else layer.weight  # (out, in)
        dtype = _PRODUCTS.get() if given.dtype == torch.float32 else given.dtype
        self._given = given if dtype == given.dtype else given.to(dtype, memory_format=torch.contiguous_format)
        self._packed: Tensor | None = None
        self.bias = None if layer.bias is None else layer.bias.to(dtype)
        self._by_one_dnn = suits_one_dnn(self._given)
        self._room = room
        self._uses = 1 if often else 0
        self._then: tuple[str, list[float], str] = ("none", [], "")

    def takes_gelu(self) -> bool:
        """Compute GELU of the product, if possible."""
        if self._by_one_dnn:
            self._then = ("gelu", [], "none")
        return self._by_one_dnn

    def __call__(self, states: Tensor) -> Tensor:
        rows = states.reshape(-1, states.shape[-1]).to(self._given.dtype)  # (R, in)
        return self._product(rows).to(states.dtype).view(*states.shape[:-1], len(self._given))

    def _product(self, rows: Tensor) -> Tensor:  # (R, in) -> (R, out)
        if not self._by_one_dnn:
            return _column_major(rows, self._given, self.bias)
        self._uses += 1
        if self._uses == 2 and self._room.take(self._given.nbytes):
            self._packed = torch.ops.mkldnn._reorder_linear_weight(self._given, _ROWS_OF_PACKING)
        weight = self._given if self._packed is None else self._packed
        return torch.ops.mkldnn._linear_pointwise(rows, weight, self.bias, *self._then)


def suits_one_dnn(weight: Tensor) -> bool:
    """Whether oneDNN is the faster one for products with it."""
    return (
        torch.backends.cpu.get_cpu_capability() == "AVX512"
        and torch.backends.mkldnn.is_available()
        and (weight.dtype == torch.float32 or (weight.dtype == torch.bfloat16 and has_products_of_bfloat16()))
        and weight.is_contiguous()
    )


def _column_major(states: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    columns = states.t()  # (in, R)
    product = weight @ columns if bias is None else torch.addmm(bias.unsqueeze(-1), weight, columns)
    return product.t()
