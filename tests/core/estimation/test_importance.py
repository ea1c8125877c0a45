import math

import pytest
import torch

from lexergy.core.estimation.importance import effective_sample_size, pareto_k, pareto_k_threshold, resample
from lexergy.errors import LexergyError

INFINITY = float("inf")


def test_effective_sample_size():
    log_weights = torch.tensor([[1.0, 1.0, 1.0], [2.0, 1.0, 1.0], [1.0, 0.0, 0.0]], dtype=torch.double).log()
    expected = torch.tensor([3.0, 16 / 6, 1.0], dtype=torch.double)
    torch.testing.assert_close(effective_sample_size(log_weights), expected)
    torch.testing.assert_close(effective_sample_size(log_weights - 2000), expected)
    assert float(effective_sample_size(torch.full((4,), -INFINITY))) == 0


def pareto_log_weights(alpha: float, seed: int, n: int = 20_000) -> torch.Tensor:
    uniforms = torch.rand(n, generator=torch.Generator().manual_seed(seed), dtype=torch.double)
    return -uniforms.log() / alpha  # w = u^(-1/alpha): P(w > t) = t^(-alpha)


@pytest.mark.parametrize("alpha", [1.0, 2.0, 4.0])
def test_pareto_k_is_the_inverse_tail_index(alpha):
    # Three standard errors of the fit, (1 + k) / sqrt(424 tail draws).
    log_weights = torch.stack([pareto_log_weights(alpha, seed) for seed in range(4)])
    tolerance = 3 * (1 + 1 / alpha) / math.sqrt(424)
    assert (pareto_k(log_weights) - 1 / alpha).abs().max() < tolerance
    # The other sign looks at the smallest weights, whose inverses are uniform powers: bounded, so k < 0.
    assert (pareto_k(-log_weights) - 1 / alpha).abs().min() > 2 * tolerance


def test_pareto_k_of_bounded_and_of_shifted_weights():
    uniforms = torch.rand(5000, generator=torch.Generator().manual_seed(0), dtype=torch.double)
    assert float(pareto_k(uniforms.log())) < -0.5
    heavy = pareto_log_weights(2.0, 0, n=1000)
    assert float(pareto_k(heavy - 5000)) == pytest.approx(float(pareto_k(heavy)), abs=1e-6)


def test_pareto_k_where_nothing_can_be_fitted():
    assert math.isnan(pareto_k(torch.randn(24, generator=torch.Generator().manual_seed(0))))
    assert not math.isnan(pareto_k(torch.randn(25, generator=torch.Generator().manual_seed(0))))
    assert math.isnan(pareto_k(torch.zeros(1000)))
    one_sample_has_all = torch.full((2, 1000), -INFINITY)
    one_sample_has_all[0, 3] = 0
    one_sample_has_all[1] = -2000
    one_sample_has_all[1, 7] = 0
    assert pareto_k(one_sample_has_all).tolist() == [INFINITY, INFINITY]
    assert math.isnan(pareto_k(torch.full((1000,), -INFINITY)))
    tied_foot = torch.cat([torch.zeros(960), torch.rand(40, generator=torch.Generator().manual_seed(0))])
    assert math.isnan(pareto_k(tied_foot))


def test_pareto_k_keeps_leading_dimensions():
    log_weights = torch.randn(2, 3, 100, generator=torch.Generator().manual_seed(0))
    values = pareto_k(log_weights)
    assert values.shape == (2, 3)
    assert float(values[1, 2]) == float(pareto_k(log_weights[1, 2]))


def test_pareto_k_threshold():
    assert pareto_k_threshold(100) == pytest.approx(0.5)
    assert pareto_k_threshold(1000) == pytest.approx(2 / 3)
    assert pareto_k_threshold(100_000) == 0.7
    with pytest.raises(LexergyError, match="at least 2"):
        pareto_k_threshold(1)


def test_resample_inverts_the_distribution_function():
    log_weights = torch.tensor([0.0, 1.0, 0.0, 2.0, 1.0, 0.0], dtype=torch.double).log() - 800
    uniforms = torch.tensor([0.0, 0.2499, 0.2501, 0.7499, 0.7501, 1.0 - 1e-12, 1.0], dtype=torch.double)
    assert resample(log_weights, uniforms).tolist() == [1, 1, 3, 3, 4, 4, 4]


def test_resample_rows_are_independent():
    log_weights = torch.tensor([[0.0, -INFINITY], [-INFINITY, 0.0]])
    uniforms = torch.tensor([[0.1, 0.9], [0.1, 0.9]])
    assert resample(log_weights, uniforms).tolist() == [[0, 0], [1, 1]]


@pytest.mark.parametrize("log_weights", [[-INFINITY, -INFINITY], [0.0, math.nan], [0.0, INFINITY]])
def test_resample_needs_a_finite_weight(log_weights):
    with pytest.raises(LexergyError, match="check the energy"):
        resample(torch.tensor(log_weights), torch.tensor([0.5]))
