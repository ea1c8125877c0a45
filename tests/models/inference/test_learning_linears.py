import pytest
import torch
from torch import nn
from transformers.pytorch_utils import Conv1D

from lexergy.models.inference import learning_linears as linears
from lexergy.models.inference.learning_linears import learning_linears

LAYERS = {
    "with bias": lambda: nn.Linear(24, 40),
    "without": lambda: nn.Linear(24, 40, bias=False),
    "the other way round": lambda: Conv1D(40, 24),
}


@pytest.fixture(autouse=True)
def every_layer_pays(monkeypatch):
    monkeypatch.setattr(linears, "FEWEST_WEIGHTS", 1)
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX512")  # oneDNN computes on all
    torch.manual_seed(0)


def gradients(layer, states, target, fast):
    values = [states, *(own for own in layer.parameters() if own.requires_grad)]
    if not fast:
        return torch.autograd.grad(((layer(states) - target) ** 2).sum(), values)
    with learning_linears(layer):
        loss = ((layer(states) - target) ** 2).sum()
    return torch.autograd.grad(loss, values)


@pytest.mark.parametrize("shape", [(1,), (3, 5), (2, 1, 70), (0,), (2, 0)])
@pytest.mark.parametrize("name", LAYERS)
def test_gradients_are_those_of_the_layer(name, shape):
    layer = LAYERS[name]()
    states, target = torch.randn(*shape, 24, requires_grad=True), torch.randn(*shape, 40)
    for own, expected in zip(
        gradients(layer, states, target, True), gradients(layer, states, target, False), strict=True
    ):
        assert own.shape == expected.shape
        assert torch.allclose(own, expected, rtol=1e-4, atol=1e-4)


def test_a_frozen_weight_has_no_gradient_and_lets_others_through():
    layer = nn.Linear(24, 40).requires_grad_(False)
    states, target = torch.randn(7, 24, requires_grad=True), torch.randn(7, 40)
    (own,), (expected,) = (gradients(layer, states, target, fast) for fast in (True, False))
    assert torch.allclose(own, expected, rtol=1e-4, atol=1e-4)
    with learning_linears(layer):
        rows, weight = layer(states).grad_fn.next_functions[0][0].saved_tensors
    assert rows is None  # what only the weight's gradient needs is not kept
    assert weight is not None


def test_a_gradient_that_is_one_number_spread_out():
    layer, states = nn.Linear(24, 40), torch.randn(7, 24)
    with learning_linears(layer):
        layer(states).sum().backward()
    assert torch.allclose(layer.weight.grad, states.sum(0).expand(40, -1), atol=1e-4)


def test_nothing_is_left_behind_and_mixed_precision_stays_as_it_is():
    layer = nn.Linear(24, 40)
    with learning_linears(layer):
        pass
    assert "forward" not in vars(layer)
    with torch.autocast("cpu", torch.bfloat16), learning_linears(layer):
        assert "forward" not in vars(layer)
    with torch.no_grad(), learning_linears(layer):
        assert "forward" not in vars(layer)
