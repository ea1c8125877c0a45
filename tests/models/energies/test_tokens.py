"""Energies from scratch over the LM's tokens: by hand, against a reference, and what every energy promises."""

import pytest
import torch
from torch import nn

from lexergy.errors import LexergyError
from lexergy.models.causal.lm import CausalLM
from lexergy.models.energies import BiLSTMEnergy, BiLSTMEnergyConfig, LinearEnergy, LinearEnergyConfig, as_energy
from lexergy.testing import assert_energy_contract
from toys.energies import wake
from toys.language_models import random_tokens

SHAPE = {"vocab_size": 257, "embedding_size": 6, "hidden_size": 5, "num_layers": 2}


def linear() -> LinearEnergy:
    return LinearEnergy(LinearEnergyConfig(vocab_size=257))


def bilstm(seed: int = 0, **changes: float) -> BiLSTMEnergy:
    return BiLSTMEnergy(BiLSTMEnergyConfig(**SHAPE | changes), seed)


MAKERS = pytest.mark.parametrize("make", [linear, bilstm])


@MAKERS
@pytest.mark.parametrize("prefix_length", [0, 4])
def test_contract(make, prefix_length):
    energy = wake(make())
    energy.rows_per_batch = 4
    prefix, continuations = random_tokens(3, prefix_length), random_tokens(3, 2, 5, seed=1)
    assert_energy_contract(energy, prefix, continuations)
    assert energy.score(prefix, continuations).std() > 0.01


@MAKERS
def test_starts_at_zero_and_learns_from_there(make):
    energy, prefix, continuations = make(), random_tokens(2, 3), random_tokens(2, 4, 5, seed=1)
    score = energy.score(prefix, continuations)
    assert torch.equal(score, torch.zeros(2, 4))
    (score[:, 0] - score[:, 1]).sum().backward()
    assert any(weight.grad is not None and weight.grad.any() for weight in energy.parameters())


@MAKERS
def test_only_the_window_counts_not_where_the_context_ends(make):
    energy, windows = wake(make()), random_tokens(3, 1, 9)
    with torch.no_grad():
        whole = energy.score(windows[:, 0, :0], windows)
        for cut in (1, 5):
            torch.testing.assert_close(energy.score(windows[:, 0, :cut], windows[:, :, cut:]), whole)


def test_linear_by_hand():
    energy = linear()
    energy.weights.weight.data[:4, 0] = torch.tensor([0.5, -1.0, 2.0, 8.0])
    score = energy.score(torch.tensor([[0, 0]]), torch.tensor([[[1, 2], [2, 2]]]))
    assert score.tolist() == [[0.5 + 0.5 - 1.0 + 2.0, 0.5 + 0.5 + 2.0 + 2.0]]


def test_linear_is_blind_to_order_and_bilstm_is_not():
    prefix, continuations = random_tokens(1, 0), random_tokens(1, 1, 8, seed=1)
    with torch.no_grad():
        for energy, blind in ((wake(linear()), True), (wake(bilstm()), False)):
            change = energy.score(prefix, continuations) - energy.score(prefix, continuations.flip(-1))
            assert (float(change.abs()) < 1e-5) == blind


def test_bilstm_is_the_mean_of_both_directions_states():
    energy, tokens = wake(bilstm(num_layers=1)), random_tokens(2, 6)
    forward, backward = (nn.LSTM(6, 5, batch_first=True) for _ in range(2))
    state = energy.lstm.state_dict()
    forward.load_state_dict({name: state[name] for name in forward.state_dict()})
    backward.load_state_dict({name: state[f"{name}_reverse"] for name in backward.state_dict()})
    with torch.no_grad():
        embedded = energy.embedding(tokens)
        states = torch.cat((forward(embedded)[0], backward(embedded.flip(1))[0].flip(1)), -1)
        expected = states.mean(1) @ energy.head.weight[0] + energy.head.bias
        torch.testing.assert_close(energy.score(tokens[:, :2], tokens[:, None, 2:])[:, 0], expected)


def test_weights_depend_on_the_seed_alone():
    first, again, other = (bilstm(seed).embedding.weight for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_dropout_is_on_in_training_only():
    energy, tokens = wake(bilstm(dropout=0.5)), random_tokens(2, 1, 6)
    with torch.no_grad(), torch.random.fork_rng():
        assert torch.equal(energy.score(tokens[:, 0, :0], tokens), energy.score(tokens[:, 0, :0], tokens))
        energy.train()
        assert not torch.equal(energy.score(tokens[:, 0, :0], tokens), energy.score(tokens[:, 0, :0], tokens))


@pytest.mark.parametrize(
    "energy", [LinearEnergy(LinearEnergyConfig(vocab_size=9)), bilstm(vocab_size=9)], ids=["linear", "bilstm"]
)
def test_an_lm_that_writes_unknown_tokens_is_refused(byte_lm: CausalLM, energy):
    with pytest.raises(LexergyError, match="knows 9 tokens and the LM writes 257"):
        as_energy(energy, byte_lm)
