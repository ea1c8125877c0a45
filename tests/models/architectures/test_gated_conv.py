"""The gated convolutional LM: by hand, what it sees, token by token as all at once, saved and sampled from."""

import math

import pytest
import torch
from transformers import AutoModelForCausalLM

from lexergy.models.architectures.gated_conv import Convolution, GatedConvConfig, GatedConvForCausalLM, GatedConvLayer
from lexergy.models.architectures.scratch import build_causal_lm
from lexergy.models.causal.lm import CausalLM
from lexergy.testing import assert_sampler_contract

VOCAB = 7


def build(seed: int = 0, sharpness: float = 3.0, **changes) -> GatedConvForCausalLM:
    shape = {"hidden_size": 10, "num_layers": 3, "embedding_size": 6, "kernel_size": 3} | changes
    model = build_causal_lm(VOCAB, num_heads=None, max_length=32, architecture="gated_conv", seed=seed, **shape)
    model.lm_head.weight.data.mul_(sharpness)  # a skewed distribution: symmetry hides mistakes
    return model.eval()


def tokens(*shape: int) -> torch.Tensor:
    return torch.randint(VOCAB, shape, generator=torch.Generator().manual_seed(1))


@torch.no_grad()
def test_a_layer_by_hand():
    layer = GatedConvLayer(GatedConvConfig(vocab_size=VOCAB, hidden_size=1, kernel_size=2))
    layer.convolution.weight.copy_(torch.tensor([[2.0, 3.0], [0.5, -1.0]]))  # value and gate; older input first
    layer.convolution.bias.copy_(torch.tensor([1.0, 0.25]))
    states, last = layer(torch.tensor([[[1.0], [-2.0]]]), torch.zeros(1, 1, 1))

    def sigmoid(x):
        return 1 / (1 + math.exp(-x))

    first = 1.0 + (2 * 0 + 3 * 1 + 1) * sigmoid(0.5 * 0 - 1 * 1 + 0.25)
    second = -2.0 + (2 * 1 + 3 * -2 + 1) * sigmoid(0.5 * 1 - 1 * -2 + 0.25)
    torch.testing.assert_close(states, torch.tensor([[[first], [second]]]) * math.sqrt(0.5))
    assert last.tolist() == [[[-2.0]]]


@torch.no_grad()
def test_the_convolution_is_that_of_torch():
    ours, reference = Convolution(6, 3), torch.nn.Conv1d(6, 12, 3)
    reference.weight.copy_(ours.weight.view(12, 3, 6).transpose(1, 2))
    reference.bias.copy_(ours.bias)
    inputs = torch.randn(2, 9, 6, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(ours(inputs), reference(inputs.transpose(1, 2)).transpose(1, 2))


@torch.no_grad()
def test_a_position_sees_exactly_the_tokens_of_its_field():
    model, text = build(), tokens(1, 12)
    field = 3 * (3 - 1) + 1  # layers, kernel
    seen = []
    for place in range(12):
        changed = text.clone()
        changed[0, place] = (changed[0, place] + 1) % VOCAB
        difference = (model(changed).logits - model(text).logits)[0].abs().amax(-1)
        seen.append(difference > 0)
    seen = torch.stack(seen)  # (changed, position)
    age = torch.arange(12)[None] - torch.arange(12)[:, None]
    assert torch.equal(seen, (age >= 0) & (age < field))


@pytest.mark.parametrize("pieces", [(1,) * 9, (4, 1, 3, 1), (2, 7)], ids=str)
@torch.no_grad()
def test_token_by_token_is_all_at_once(pieces):
    model, text = build(), tokens(3, 9)
    whole = model(text, output_hidden_states=True)
    memory, logits, states = None, [], []
    for piece in text.split(pieces, dim=1):
        output = model(piece, cache_params=memory, use_cache=True, output_hidden_states=True)
        memory = output.cache_params
        assert all(inputs.shape == (3, 2, 10) for inputs in memory.inputs)  # no more than the next token needs
        logits.append(output.logits)
        states.append(output.hidden_states)
    torch.testing.assert_close(torch.cat(logits, 1), whole.logits, atol=1e-6, rtol=1e-5)
    for layer, expected in enumerate(whole.hidden_states):
        torch.testing.assert_close(torch.cat([each[layer] for each in states], 1), expected, atol=1e-6, rtol=1e-5)


@torch.no_grad()
def test_logits_of_the_last_tokens_only():
    model, text = build(), tokens(2, 5)
    torch.testing.assert_close(model(text, logits_to_keep=2).logits, model(text).logits[:, -2:])


@pytest.mark.parametrize("kernel_size", [1, 3])
def test_samples_follow_the_law(kernel_size):
    assert_sampler_contract(CausalLM(build(kernel_size=kernel_size)), tokens(2, 4), 2, top_k=5)


def test_samples_keep_to_their_own_prefixes():
    lm, prefix = CausalLM(build()), tokens(3, 5)
    samples = lm.sample(prefix, num_samples=4, max_new_tokens=3, seed=1)
    rows = torch.cat((prefix[:, None].expand(-1, 4, -1), samples.tokens), -1).flatten(0, 1)
    torch.testing.assert_close(lm.log_prob(rows, prefix_length=5).view(3, 4), samples.log_prob, atol=1e-5, rtol=1e-5)


def test_the_prefix_is_run_once_for_all_its_samples(monkeypatch):
    lm, rows = CausalLM(build()), []
    forward = GatedConvLayer.forward
    monkeypatch.setattr(
        GatedConvLayer,
        "forward",
        lambda self, states, before: rows.append(states.shape) or forward(self, states, before),
    )
    lm.sample(tokens(2, 9), num_samples=5, max_new_tokens=4)
    fed = {shape for shape in rows if shape[1] == 1}
    assert fed == {(10, 1, 10)}  # K samples of B prefixes, one token each, at width D
    assert all(shape[0] == 2 for shape in rows if shape[1] > 3)


def test_saved_and_loaded_it_is_the_same(tmp_path):
    model = build()
    model.save_pretrained(tmp_path)
    loaded, lm = AutoModelForCausalLM.from_pretrained(tmp_path).eval(), CausalLM.from_pretrained(tmp_path)
    with torch.no_grad():
        assert torch.equal(loaded(tokens(2, 5)).logits, model(tokens(2, 5)).logits)
    assert isinstance(lm.model, GatedConvForCausalLM)
    assert (lm.hidden_size, lm.num_layers, lm.vocab_size, lm.max_length) == (10, 3, VOCAB, None)


def test_weights_depend_on_the_seed_alone():
    first, again, other = (build(seed).state_dict() for seed in (1, 1, 2))
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not any(torch.equal(first[name], other[name]) for name in first if first[name].dim() > 1)


@torch.no_grad()
def test_states_neither_fade_nor_grow_with_depth():
    model = build_causal_lm(300, 128, 12, None, 32, seed=0, architecture="gated_conv", embedding_size=64)
    states = model.eval()(torch.arange(200)[None], output_hidden_states=True).hidden_states
    assert 0.2 < float(states[-1].std() / states[0].std()) < 5
