"""Sequential Monte Carlo where texts end at different lengths: its noise and its bias beside importance sampling's."""

from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from lexergy.core.estimation.smc import Population, proportional_twist, resample

LENGTH, PARTICLES, RUNS = 16, 32, 4000


class Chain(NamedTuple):
    """Texts of steps +1 and -1, of which one ends after each token with the chance `end`.

    E = level + scale times the mean step; the law of a text is known from its length and the sum of its steps.
    """

    end: float
    scale: float
    level: float = 0.0

    def energy(self, total: Tensor, length: Tensor) -> Tensor:
        return self.level + self.scale * total.double() / length

    def log_score(self) -> Tensor:  # (T + 1, 2 T + 1)
        """log P(length, sum) exp(-E)."""
        going = torch.zeros(2 * LENGTH + 1, dtype=torch.double)
        going[LENGTH] = 1
        prob = torch.zeros(LENGTH + 1, 2 * LENGTH + 1, dtype=torch.double)
        for length in range(1, LENGTH + 1):
            prob[length] = self.end * going
            going = (1 - self.end) / 2 * (going.roll(1) + going.roll(-1))
        prob[LENGTH] += going
        total = torch.arange(-LENGTH, LENGTH + 1)
        return prob.log() - self.energy(total, torch.arange(LENGTH + 1).clamp(min=1)[:, None])


class Found(NamedTuple):
    noise: float  # K times the variance of Z^ / Z
    bias: float  # how far what is drawn is from the joint law, in total variation


def measured(chain: Chain, below: float, apart: bool = True, seed: int = 0) -> Found:
    """Runs of K particles; `apart` is whether those that have ended are left alone."""
    generator = torch.Generator().manual_seed(seed)
    shape, twist = (RUNS, PARTICLES), proportional_twist(LENGTH)
    population, alive = Population.start(*shape), torch.ones(shape, dtype=torch.bool)
    total, length = torch.zeros(shape, dtype=torch.long), torch.zeros(shape, dtype=torch.long)
    for step in range(1, LENGTH + 1):
        numbers = torch.rand(shape, generator=generator)
        length += alive
        alive = alive & (numbers >= chain.end)
        total += torch.where(alive, torch.where(numbers < chain.end + (1 - chain.end) / 2, 1, -1), 0)
        energy = chain.energy(total, length)
        # Only where they are compared does it matter that the ended have their last weight.
        population = population.weighed(
            torch.where(alive, twist.log_twist(energy, torch.zeros_like(energy), step), -energy)
        )
        if step < LENGTH and step % 2 == 0:
            choice = torch.rand(RUNS, generator=generator, dtype=torch.double)
            population, rows = resample(population, choice, below=below, alive=alive if apart else None)
            total, length, alive = (values.gather(-1, rows) for values in (total, length, alive))
    population = population.weighed(-chain.energy(total, length))
    score = chain.log_score()
    relative = (population.log_z_estimate - score.flatten().logsumexp(0)).exp()
    assert float(relative.mean()) == pytest.approx(1, abs=5 * float(relative.std()) / RUNS**0.5)
    shares = (population.log_weights.softmax(-1) / RUNS).flatten()
    drawn = torch.zeros(score.numel(), dtype=torch.double)
    drawn.scatter_add_(0, (length * (2 * LENGTH + 1) + total + LENGTH).flatten(), shares)
    bias = 0.5 * (drawn - score.flatten().softmax(0)).abs().sum()
    return Found(PARTICLES * float(relative.var()), float(bias))


@pytest.mark.parametrize("end", [0.06, 0.2])
@pytest.mark.parametrize("seed", [0, 1])
def test_less_noise_and_less_bias_than_importance_sampling(end, seed):
    plain, resampled = (measured(Chain(end, 8.0), below, seed=seed) for below in (0.0, 0.5))
    assert resampled.noise < 0.9 * plain.noise
    assert resampled.bias < 0.9 * plain.bias


def test_the_level_of_the_energy_changes_nothing():
    """exp(-E) / Z is the same for E + c; texts that have ended would be compared with t / T of c."""
    found = [measured(Chain(0.06, 8.0, level), 0.5) for level in (-3.0, 0.0, 3.0)]
    assert found[0] == pytest.approx(found[1], rel=1e-9)
    assert found[2] == pytest.approx(found[1], rel=1e-9)
    together = [measured(Chain(0.06, 8.0, level), 0.5, apart=False) for level in (-3.0, 0.0)]
    assert together[0].bias > 2 * together[1].bias > 2 * found[1].bias


def test_only_those_that_go_on_decide_when():
    """Two of eight go on with equal weights, worth two of two; with unequal ones, worth one of two."""
    alive = torch.arange(8) < 2
    for other, expected in ((0.0, 0), (-9.0, 1)):
        population = Population.start(8).weighed(torch.tensor([0.0, other] + 6 * [3.0]))
        after = resample(population, torch.tensor(0.3), below=0.9, alive=alive).population
        assert int(after.num_resamplings) == expected
        assert torch.equal(after.log_weights[2:], population.log_weights[2:])
