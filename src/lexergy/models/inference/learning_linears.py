"""Linear layers of a model that learns, at nearly the full rate of the processor's matrix products.

Where torch's own library takes older instructions (`inference.linears`), oneDNN computes the product and both of
its gradients twice as fast.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from transformers.pytorch_utils import Conv1D

from lexergy.models.inference.linears import suits_one_dnn

FEWEST_WEIGHTS = 2**14  # of smaller layers the calls take longer than the products


@contextmanager
def learning_linears(model: nn.Module) -> Iterator[None]:
    """Let the model's linear layers compute the same numbers and gradients faster, in a single process on a CPU."""
    with ExitStack() as stack:
        if torch.is_grad_enabled() and not torch.is_autocast_enabled("cpu") and not _is_distributed():
            for layer in model.modules():
                if type(layer) in (nn.Linear, Conv1D) and _pays(layer.weight) and "forward" not in vars(layer):
                    layer.forward = partial(_forward, layer)
                    stack.callback(delattr, layer, "forward")
        yield


def _is_distributed() -> bool:
    return torch.distributed.is_available() and torch.distributed.is_initialized()


def _pays(weight: Any) -> bool:
    return weight.device.type == "cpu" and weight.numel() >= FEWEST_WEIGHTS and suits_one_dnn(weight)


def _forward(layer: Any, states: Tensor) -> Tensor:
    weight = layer.weight.t() if isinstance(layer, Conv1D) else layer.weight  # (out, in)
    if states.numel() == 0:  # oneDNN has no gradients of no rows
        return nn.functional.linear(states, weight, layer.bias)
    rows = states.reshape(-1, states.shape[-1])  # (R, in)
    return _Product.apply(rows, weight, layer.bias).view(*states.shape[:-1], -1)


class _Product(torch.autograd.Function):
    """Y = X W^T + b; of a gradient G of Y they are G W, G^T X and the sum of G's rows."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        of_rows, of_weight, _ = ctx.needs_input_grad
        ctx.save_for_backward(rows if of_weight else None, weight if of_rows else None)  # no more than is needed
        return _product(rows, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
        rows, weight = ctx.saved_tensors
        gradient = gradient.contiguous()
        of_rows, of_weight, of_bias = ctx.needs_input_grad
        return (
            _product(gradient, weight.t()) if of_rows else None,
            _product(gradient.t(), rows.t()) if of_weight else None,
            gradient.sum(0) if of_bias else None,
        )


def _product(left: Tensor, right: Tensor, bias: Tensor | None = None) -> Tensor:  # (N, K), (M, K), (M,) -> (N, M)
    return torch.ops.mkldnn._linear_pointwise(left, right, bias, "none", [], "")
