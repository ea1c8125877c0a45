import numpy as np
import pytest
import torch
from scipy.stats import energy_distance as scipy_distance

from lexergy.core.two_sample import energy_distance, two_sample_p_value


def drawn(count, seed, shift=0.0):
    return torch.randn(count, 3, generator=torch.Generator().manual_seed(seed)) * torch.tensor([1.0, 50, 0.01]) + shift


def test_the_distance_is_scipys():
    first, second = drawn(17, 0)[:, :1], drawn(9, 1)[:, :1]
    expected = scipy_distance(first[:, 0].numpy(), second[:, 0].numpy()) ** 2
    assert energy_distance(first, second) == pytest.approx(expected)


def test_the_p_value_by_every_split():
    """Of 2 + 3 rows in one column there are 10 splits; the given one is the farthest apart, with none as far."""
    first, second = torch.tensor([[0.0], [1.0]]), torch.tensor([[5.0], [6.0], [8.0]])
    assert two_sample_p_value(first, second, num_permutations=4000) == pytest.approx(0.1, abs=0.02)


def test_alike_sets_have_p_values_that_are_uniform():
    p_values = [two_sample_p_value(drawn(20, 2 * n), drawn(8, 2 * n + 1), num_permutations=99) for n in range(200)]
    assert np.mean(np.array(p_values) <= 0.1) == pytest.approx(0.1, abs=0.06)
    assert np.mean(p_values) == pytest.approx(0.5, abs=0.07)


@pytest.mark.parametrize("column", [0, 1, 2])
def test_a_shift_is_seen_on_any_scale(column):
    shift = torch.zeros(3)
    shift[column] = (3.0, 150.0, 0.03)[column]
    assert two_sample_p_value(drawn(40, 0), drawn(15, 1, shift)) <= 0.005


def test_a_column_that_never_changes_says_nothing():
    first, second = (torch.cat((drawn(20, seed), torch.ones(20, 1)), 1) for seed in (0, 1))
    assert two_sample_p_value(first, second) == two_sample_p_value(first[:, :3], second[:, :3])
