import pytest
import torch
from torch import nn
from transformers import BertConfig, BertModel
from transformers.activations import GELUActivation
from transformers.pytorch_utils import Conv1D

from lexergy.models.inference import linears
from lexergy.models.inference.linears import fast_linears, has_products_of_bfloat16, products_in


@pytest.fixture(autouse=True, params=["AVX2", "AVX512"])
def processor(request, monkeypatch):
    """Both ways, whatever this processor is: oneDNN computes on all of them."""
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: request.param)


@pytest.mark.parametrize("build", [lambda: nn.Linear(24, 40), lambda: nn.Linear(24, 40, bias=False)])
@pytest.mark.parametrize("rows", [(1,), (3, 5), (2, 1, 300), (0,), (3, 0)])
def test_the_products_are_those_of_the_layer_however_often_it_is_used(build, rows):
    layer, states = build(), torch.randn(*rows, 24)
    with torch.no_grad():
        plain = layer(states)
        with fast_linears(layer):
            for _ in range(3):  # the second use reorders the weight, the third has it reordered
                assert torch.allclose(layer(states), plain, atol=1e-5)


def test_a_layer_with_its_weight_the_other_way_round():
    layer, states = Conv1D(40, 24), torch.randn(7, 24)
    with torch.no_grad(), fast_linears(layer):
        assert torch.allclose(layer(states), states @ layer.weight + layer.bias, atol=1e-5)


def test_weights_may_change_between_two_contexts():
    layer, states = nn.Linear(16, 16), torch.randn(64, 16)
    for _ in range(2):
        with torch.no_grad():
            with fast_linears(layer):
                fast = [layer(states) for _ in range(3)]
            assert all(torch.allclose(own, layer(states), atol=1e-5) for own in fast)
        layer.weight.data.mul_(3.0)  # which no version counter sees


def test_the_outer_context_counts_and_leaves_nothing_behind():
    layer = nn.Linear(4, 4)
    with torch.no_grad(), fast_linears(layer, layer):
        outer = layer.forward
        with fast_linears(layer):
            assert layer.forward is outer
        assert layer.forward is outer
    assert "forward" not in vars(layer)


def test_gradients_and_mixed_precision_have_products_of_their_own():
    layer = nn.Linear(4, 4)
    with fast_linears(layer):
        assert "forward" not in vars(layer)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16), fast_linears(layer):
        assert "forward" not in vars(layer)


def test_a_model_larger_than_the_room_computes_the_same(monkeypatch):
    monkeypatch.setattr(linears, "PACKED_BYTES", 4 * 16 * 16)  # one of the two layers
    model, states = nn.Sequential(nn.Linear(16, 16), nn.Linear(16, 16)), torch.randn(64, 16)
    with torch.no_grad():
        plain = model(states)
        with fast_linears(model):
            assert all(torch.allclose(model(states), plain, atol=1e-5) for _ in range(3))


def test_an_activation_is_computed_once_however_it_is_computed():
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}
    model, tokens = BertModel(BertConfig(vocab_size=30, **sizes)).eval(), torch.arange(12).view(2, 6)
    with torch.no_grad():
        plain = model(tokens).last_hidden_state
        with fast_linears(model):
            assert all(torch.allclose(model(tokens).last_hidden_state, plain, atol=1e-5) for _ in range(3))
        assert torch.equal(model(tokens).last_hidden_state, plain)


def test_an_activation_behind_another_layer_stays_where_it_is():
    model = nn.Module()
    model.intermediate_dense, model.intermediate_act_fn = nn.Linear(4, 4), GELUActivation()  # as in Wav2Vec2
    with torch.no_grad(), fast_linears(model):
        assert "forward" in vars(model.intermediate_dense)
        assert "forward" not in vars(model.intermediate_act_fn)


@pytest.mark.parametrize("build", [lambda: nn.Linear(64, 40), lambda: Conv1D(40, 64)])
def test_products_of_rounded_states_and_weights(build):
    layer, states = build(), torch.randn(7, 64)
    nn.init.normal_(layer.bias)
    weight = layer.weight if isinstance(layer, Conv1D) else layer.weight.t()
    with torch.no_grad():
        exact = states.double() @ weight.double() + layer.bias.double()
        rounded = states.bfloat16().double() @ weight.bfloat16().double() + layer.bias.bfloat16().double()
        for _ in range(2):
            with products_in(torch.bfloat16), fast_linears(layer):
                found = [layer(states) for _ in range(3)]
            assert all(own.dtype == torch.float32 for own in found)
            assert all(torch.allclose(own.double(), rounded, rtol=2**-8, atol=2**-8) for own in found)
        with fast_linears(layer):
            assert torch.allclose(layer(states).double(), exact, atol=1e-5)  # out of the context
    assert not torch.allclose(found[0].double(), exact, atol=1e-4)
    assert layer.weight.dtype == torch.float32


def test_one_dnn_computes_in_bfloat16_only_where_it_has_such_products(monkeypatch):
    weight = torch.randn(4, 4, dtype=torch.bfloat16)
    monkeypatch.setattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", lambda: False)
    assert not has_products_of_bfloat16()
    assert not linears.suits_one_dnn(weight)
