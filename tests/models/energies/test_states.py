"""The energy on frozen states: standardisation, start at zero, errors for the wrong LM."""

import pytest
import torch

from lexergy.errors import LexergyError
from lexergy.models.architectures.scratch import build_causal_lm
from lexergy.models.causal.lm import CausalLM
from lexergy.models.causal.state_features import StateFeatures
from lexergy.models.energies import StatesEnergy, as_energy
from toys.language_models import BYTE_LM, random_tokens

LAYERS = (0, 2)


def random_features(lm: CausalLM, *shape: int) -> torch.Tensor:
    size = StateFeatures(LAYERS).size(lm.hidden_size)
    return 3 + 2 * torch.randn(*shape, size, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("hidden_units", [None, 5])
def test_energy_starts_at_zero_and_every_parameter_learns(byte_lm: CausalLM, hidden_units: int | None) -> None:
    energy = StatesEnergy.for_lm(byte_lm, LAYERS, hidden_units=hidden_units)
    prefix, continuations, features = random_tokens(2, 3), random_tokens(2, 4, 5), random_features(byte_lm, 2, 4)
    scores = energy.score(prefix, continuations, features)
    assert torch.equal(scores, torch.zeros(2, 4))
    optimizer = torch.optim.SGD(energy.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        (energy.score(prefix, continuations, features) - 1).pow(2).sum().backward()
        optimizer.step()
    assert all(parameter.grad is not None and parameter.grad.any() for parameter in energy.parameters())


def test_linear_head_reads_standardised_features(byte_lm: CausalLM) -> None:
    energy = StatesEnergy.for_lm(byte_lm, LAYERS)
    training = random_features(byte_lm, 50, 2)
    training[..., 7] = 0.1  # constant: its deviation is a rounding error
    energy.fit_standardisation(training)
    weight = torch.randn(training.shape[-1], generator=torch.Generator().manual_seed(1))
    energy.head[-1].weight.data.copy_(weight)
    flat = training.flatten(0, 1)
    standard = (flat - flat.mean(0)) / flat.std(0, correction=0)
    standard[:, 7] = 0
    scores = energy.score(random_tokens(50, 3), random_tokens(50, 2, 4), training)
    torch.testing.assert_close(scores.flatten(), standard @ weight, atol=1e-4, rtol=1e-4)
    assert energy.std[7] == 1


def test_features_come_from_the_sampler(byte_lm: CausalLM) -> None:
    energy = as_energy(StatesEnergy.for_lm(byte_lm, LAYERS, hidden_units=4), byte_lm)
    assert energy.features == StateFeatures(LAYERS)
    prefix = random_tokens(2, 3)
    samples = byte_lm.sample(prefix, num_samples=3, max_new_tokens=4, seed=0, features=energy.features)
    assert energy.score(prefix, samples.tokens, samples.features).shape == (2, 3)


def test_dropout_only_in_training(byte_lm: CausalLM) -> None:
    energy = StatesEnergy.for_lm(byte_lm, LAYERS, dropout=0.5)
    energy.head[-1].weight.data.fill_(1)
    arguments = random_tokens(1, 3), random_tokens(1, 2, 4), random_features(byte_lm, 1, 2)
    energy.train()
    assert not torch.equal(energy.score(*arguments), energy.score(*arguments))
    energy.eval()
    assert torch.equal(energy.score(*arguments), energy.score(*arguments))


def test_wrong_inputs_are_explained(byte_lm: CausalLM) -> None:
    energy = StatesEnergy.for_lm(byte_lm, LAYERS)
    prefix, continuations = random_tokens(2, 3), random_tokens(2, 4, 5)
    with pytest.raises(LexergyError, match=r"features=energy\.features"):
        energy.score(prefix, continuations)
    with pytest.raises(LexergyError, match=r"has 3 numbers per continuation; expected 40 \(layers \[0, 2\]"):
        energy.score(prefix, continuations, torch.zeros(2, 4, 3))
    with pytest.raises(LexergyError, match=r"expected \(2, 4\) \+ \(F,\)"):
        energy.score(prefix, continuations, random_features(byte_lm, 2, 1))
    with pytest.raises(LexergyError, match="NaN or infinity"):
        energy.fit_standardisation(random_features(byte_lm, 4) * torch.inf)
    with pytest.raises(LexergyError, match=r"`layers` is \[3\]"):
        StatesEnergy.for_lm(byte_lm, (3,))
    wider = CausalLM(build_causal_lm(**{**BYTE_LM, "hidden_size": 32}, seed=1))
    with pytest.raises(LexergyError, match=r"of width 16 of .*lm; the LM given has 2 layers of width 32"):
        as_energy(energy, wider)
