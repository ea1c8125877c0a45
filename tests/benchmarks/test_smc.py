"""Both sides of SMC beside importance sampling: estimates of a pool are as scattered as estimates of new samples."""

import sys
from pathlib import Path

import pytest
import torch

from lexergy.core.estimation import partition
from lexergy.core.estimation.smc import Population

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
SPREAD = 5**0.5  # of the log-weights, as that of an energy within a prefix of SmolLM2's


@pytest.fixture
def smc(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    import smc

    yield smc
    for name in ("smc", "smc_bound", "timing"):
        del sys.modules[name]


def heavy(*shape, seed):
    return SPREAD * torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("each", [20, 64])  # a pool of 256: twelve estimates and some left over, or four
def test_the_variance_of_estimates_of_a_pool_is_that_of_new_samples(smc, each):
    true = float(partition.lower_bound(heavy(40_000, each, seed=0)).var())
    pools = heavy(3000, 4, 64, seed=1)  # (B, M, K)
    variance, _ = smc.scatter(smc.shared_out(pools, each, ways=8), torch.zeros(3000))
    error = float(variance.std()) / 3000**0.5
    assert float(variance.mean()) == pytest.approx(true, abs=4 * error + 0.01 * true)
    assert error < 0.03 * true


def test_estimates_of_one_way_have_no_sample_in_common(smc):
    weights = torch.arange(12.0).log().view(1, 3, 4)
    ways = smc.shared_out(weights, 4)  # (S, 1, 3)
    torch.testing.assert_close(ways.exp().sum(-1) * 4, torch.full((200, 1), 66.0).double())
    assert len(ways[:, 0, 0].unique()) > 50
    assert smc.shared_out(weights, 5).shape == (200, 1, 2)  # two are left over, others in each way


def test_the_squared_error_is_the_variance_and_what_the_mean_is_off(smc):
    log_z = torch.tensor([[[1.0, 3.0]], [[2.0, 6.0]]])  # (S, B, M): two ways, one window, two estimates
    variance, error = smc.scatter(log_z, torch.tensor([2.0]))
    assert (variance.item(), error.item()) == (5.0, 4.5)


def test_the_best_estimate_counts_each_text_once(smc):
    plain, runs = Population.start(1, 1, 4), Population.start(1, 3, 2)
    plain = plain._replace(log_weights=torch.tensor([[[1.0, 2.0, 3.0, 4.0]]]).double().log())
    runs = runs._replace(log_weights=torch.tensor([[[5.0, 5.0], [7.0, 7.0], [9.0, 9.0]]]).double().log())
    torch.testing.assert_close(smc.best_estimate([plain, runs]).exp(), torch.tensor([(10 + 42) / 10]).double())


def test_the_ratio_is_of_means_over_windows(smc):
    first, second = torch.tensor([1.0, 100.0]).repeat(50), torch.tensor([1.0, 10.0]).repeat(50)
    told, interval = smc.ratio_with_interval(first, second).split(", ")
    assert told == "9.18"
    low, high = map(float, interval.split(" to "))
    assert 8.5 < low < 9.0 < 9.3 < high < 9.6  # the mean of ratios is 5.5
