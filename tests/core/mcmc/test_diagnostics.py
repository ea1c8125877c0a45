import math

import torch

from lexergy.core.mcmc.diagnostics import mixing


def noise(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=torch.double)


def test_independent_draws_have_mixed():
    found = mixing(noise(4, 500))
    assert found.r_hat < 1.01
    assert 1500 < found.ess < 2500
    assert found.mixed


def test_chains_in_different_places_have_not():
    found = mixing(noise(4, 500) + 3 * torch.arange(4)[:, None])
    assert found.r_hat > 1.5
    assert found.ess < 20
    assert not found.mixed


def test_a_chain_that_drifts_is_told_by_its_halves():
    found = mixing(noise(4, 500) + torch.linspace(0, 6, 500))
    assert found.r_hat > 1.5
    assert not found.mixed


def test_slow_chains_have_a_small_effective_sample_size():
    found = mixing(noise(4, 50).repeat_interleave(10, dim=1))
    assert found.ess < 400
    assert not found.mixed


def trials(draws_of, count=100):
    """In how many of them the chains are said to have mixed, for several numbers of chains and draws."""
    generator = torch.Generator().manual_seed(1)
    for shape in ((8, 26), (8, 80), (4, 100), (4, 400)):
        yield sum(mixing(draws_of(torch.randn(shape, generator=generator))).mixed for _ in range(count))


def slowly(rho):
    """Chains that remember: x_t = rho x_{t-1} + noise, from starts far apart."""

    def walk(noise):
        x = 4 * noise[:, 0]
        states = []
        for step in noise.unbind(1):
            x = rho * x + (1 - rho**2) ** 0.5 * step
            states.append(x)
        return torch.stack(states, dim=1)

    return walk


def stuck(noise):
    noise[0] = 3.0
    return noise


def test_the_rule_passes_independent_draws_and_no_slow_or_stuck_chains():
    assert min(trials(lambda noise: noise)) >= 98
    assert max(trials(stuck)) == 0
    assert max(trials(slowly(0.95))) == 0
    assert max(trials(lambda noise: noise.cumsum(dim=1))) == 0


def test_too_little_to_tell():
    for draws in (noise(1, 100), noise(4, 3), torch.ones(4, 100)):
        found = mixing(draws)
        assert math.isnan(found.r_hat)
        assert not found.mixed
