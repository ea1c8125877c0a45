import itertools
import math

import pytest
import torch

from lexergy.core.estimation.importance import LEAST_ESS, effective_sample_size
from lexergy.core.estimation.partition import curve, doubling_sizes, lower_bound, sampler_log_z, upper_bound
from lexergy.errors import LexergyError

INFINITY = float("inf")


def naive_upper_bound(weights: list[float]) -> float:
    """Theorem 2 word for word, in exact rational sums of plain weights."""
    n = len(weights)
    whole = math.log(math.fsum(weights) / n)
    left_out = [math.log(math.fsum(weights[:i] + weights[i + 1 :]) / (n - 1)) for i in range(n)]
    return (2 * n - 1) * whole - 2 * (n - 1) * math.fsum(left_out) / n


def log(weights: list[float]) -> torch.Tensor:
    return torch.tensor(weights, dtype=torch.double).log()


@pytest.mark.parametrize("weights", [[1.0, 2.0], [0.3, 5.0, 0.01, 2.0], [1.0] * 7, [1e-3, 1.0, 40.0]])
def test_bounds_follow_theorem_2_literally(weights):
    n = len(weights)
    assert float(lower_bound(log(weights))) == pytest.approx(math.log(sum(weights) / n), abs=1e-13)
    assert float(upper_bound(log(weights))) == pytest.approx(naive_upper_bound(weights), abs=1e-12)


def test_leading_dimensions_and_single_precision():
    log_weights = torch.randn(3, 4, 50, generator=torch.Generator().manual_seed(0))
    for bound in (lower_bound, upper_bound):
        together = bound(log_weights)
        assert together.shape == (3, 4)
        assert together.dtype == torch.double
        assert torch.equal(together[2, 1], bound(log_weights[2, 1]))


def test_exact_when_one_weight_dominates():
    # 1 - p of the first weight is 2e-130: by cancellation it would be zero and the bound infinite.
    log_weights = torch.tensor([0.0, -300.0, -300.0], dtype=torch.double)
    mean_left_out = ((-300.0 + math.log(2) - math.log(2)) + 2 * (0.0 - math.log(2))) / 3
    expected = 5 * (0.0 - math.log(3)) - 4 * mean_left_out
    assert float(upper_bound(log_weights)) == pytest.approx(expected, abs=1e-11)


def test_shifting_the_energy_shifts_the_bounds():
    log_weights = 3 * torch.randn(100, generator=torch.Generator().manual_seed(1), dtype=torch.double)
    for shift in (-1e4, 1e4):
        for bound in (lower_bound, upper_bound):
            assert float(bound(log_weights + shift) - bound(log_weights)) == pytest.approx(shift, abs=1e-9)


def test_equal_weights_leave_no_gap_however_many():
    log_weights = torch.full((100_000,), -3.0)
    assert float(lower_bound(log_weights)) == pytest.approx(-3.0, abs=1e-12)
    assert float(upper_bound(log_weights)) == pytest.approx(-3.0, abs=1e-9)


def test_zero_weights():
    none = torch.full((2, 5), -INFINITY)
    assert lower_bound(none).tolist() == [-INFINITY] * 2
    assert upper_bound(none).tolist() == [INFINITY] * 2
    one = torch.tensor([-INFINITY, 0.5, -INFINITY])
    assert float(lower_bound(one)) == pytest.approx(0.5 - math.log(3))
    assert float(upper_bound(one)) == INFINITY
    two = torch.tensor([-INFINITY, 0.0, -INFINITY, 1.0])
    assert float(upper_bound(two)) == pytest.approx(naive_upper_bound([0.0, 1.0, 0.0, math.e]))


def test_too_few_samples():
    assert float(lower_bound(torch.tensor([0.7]))) == pytest.approx(0.7)
    with pytest.raises(LexergyError, match="expected at least 2"):
        upper_bound(torch.zeros(3, 1))
    with pytest.raises(LexergyError, match="expected at least 1"):
        lower_bound(torch.zeros(3, 0))


def test_expectations_bracket_log_z():
    # Log-normal weights: log E[w] = 1/2 exactly. 20,000 repetitions, gap 8 standard errors or more.
    log_weights = torch.randn(20_000, 64, generator=torch.Generator().manual_seed(2), dtype=torch.double)
    for bound, sign in ((lower_bound, -1), (upper_bound, 1)):
        values = bound(log_weights)
        distance = sign * (values.mean() - 0.5)
        assert 0.005 < distance < 0.05
        assert distance > 8 * values.std() / math.sqrt(len(values)), "the repetitions do not decide"


def test_curve_averages_disjoint_blocks():
    log_weights = torch.randn(2, 11, generator=torch.Generator().manual_seed(3))
    own = torch.tensor([0.5, -1.0])
    result = curve(own, log_weights, [4, 7, 11])
    assert result.sizes == (4, 7, 11)
    assert result.lower.shape == result.upper.shape == (2, 3)
    for values, bound in ((result.lower, lower_bound), (result.upper, upper_bound)):
        blocks = (bound(log_weights[:, :4]) + bound(log_weights[:, 4:8])) / 2
        torch.testing.assert_close(values[:, 0], blocks)
        assert torch.equal(values[:, 1], bound(log_weights[:, :7]))
        assert torch.equal(values[:, 2], bound(log_weights))
    blocks = (sampler_log_z(own, log_weights[:, :3]) + sampler_log_z(own, log_weights[:, 4:7])) / 2
    torch.testing.assert_close(result.sampler[:, 0], blocks)
    assert torch.equal(result.sampler[:, 2], sampler_log_z(own, log_weights[:, :10]))


@pytest.mark.parametrize("size", [1, 12])
def test_curve_rejects_sizes_it_cannot_serve(size):
    with pytest.raises(LexergyError, match=f"curve size {size}"):
        curve(torch.tensor(0.0), torch.zeros(11), [size])


def test_doubling_sizes_end_with_all_samples():
    assert doubling_sizes(1000) == (7, 15, 31, 62, 125, 250, 500, 1000)
    assert doubling_sizes(2) == (2,)


@pytest.mark.parametrize("num_candidates", [1, 2, 3])
def test_the_samplers_density_is_that_of_resampling_enumerated(num_candidates):
    lm, weights = torch.tensor([[0.5, 0.3, 0.2], [0.2, 6.0, 1.0]], dtype=torch.double)
    exact = torch.zeros(3, dtype=torch.double)
    for candidates in map(list, itertools.product(range(3), repeat=num_candidates)):
        chosen = lm[candidates].prod() * weights[candidates] / weights[candidates].sum()  # (m,)
        exact.index_add_(0, torch.tensor(candidates), chosen)
    averaged = torch.zeros(3, dtype=torch.double)
    for rest in map(list, itertools.product(range(3), repeat=num_candidates - 1)):
        log_z = sampler_log_z(weights.log(), weights[rest].log().expand(3, -1))  # (3,)
        averaged += lm[rest].prod() * lm * weights / log_z.exp()
    torch.testing.assert_close(averaged, exact, atol=1e-12, rtol=0)
    assert float(averaged.sum()) == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("num_candidates", [2, 3])
def test_the_samplers_bound_is_below_its_density_in_expectation(num_candidates):
    lm, weights = torch.tensor([[0.5, 0.3, 0.2], [0.2, 6.0, 1.0]], dtype=torch.double)
    density, bound = torch.zeros(2, 3, dtype=torch.double)
    for rest in map(list, itertools.product(range(3), repeat=num_candidates - 1)):
        log_prob = (lm * weights).log() - sampler_log_z(weights.log(), weights[rest].log().expand(3, -1))  # (3,)
        density += lm[rest].prod() * log_prob.exp()
        bound += lm[rest].prod() * log_prob
    assert (bound < density.log()).all()


LOG_NORMAL = [(2.5, 11, +0.00075), (3.5, 5.5, -0.0065), (4.5, 3.6, -0.035)]  # sigma, ESS, error of Theorem 2


@pytest.mark.parametrize(("sigma", "ess", "error"), LOG_NORMAL)
def test_theorem_2_is_no_bound_where_few_samples_carry_the_weight(sigma, ess, error):
    """256 weights with log Z = sigma^2 / 2, continuations of 32 tokens: nats per token above or below the truth."""
    log_weights = sigma * torch.randn(10_000, 256, generator=torch.Generator().manual_seed(0), dtype=torch.double)
    assert float(effective_sample_size(log_weights).mean()) == pytest.approx(ess, rel=0.1)
    found = float(upper_bound(log_weights).mean() - sigma**2 / 2) / 32
    assert found == pytest.approx(error, rel=0.1, abs=5e-4)
    assert (found > 0) == (ess > LEAST_ESS)


@pytest.mark.parametrize("sigma", [sigma for sigma, _, _ in LOG_NORMAL])
def test_the_samplers_bound_holds_whatever_the_tail(sigma):
    """Text of the joint model itself, whose log-weight is N(sigma^2, sigma^2): no sampler has a higher likelihood."""
    generator = torch.Generator().manual_seed(1)
    own, rest = (sigma * torch.randn(10_000, size, generator=generator, dtype=torch.double) for size in (1, 255))
    own = own[:, 0] + sigma**2
    gain = own - sampler_log_z(own, rest)
    truth = own - sigma**2 / 2
    assert float((truth - gain).mean()) > 4 * float((truth - gain).std()) / 100
    assert float(gain.max()) <= math.log(256)
