import math

import pytest
import torch

from lexergy.core.estimation.bootstrap import bootstrap_std_error, corrected_std_error, resampled_means
from lexergy.errors import LexergyError


def test_mean_has_the_textbook_standard_error():
    values = torch.randn(200, generator=torch.Generator().manual_seed(0), dtype=torch.double) * 3 + 5
    expected = float(values.std(correction=0)) / math.sqrt(200)
    # 4,000 resamples: the standard deviation itself is known to 1 / sqrt(2 * 4000) = 1.1 %.
    assert bootstrap_std_error(values, 0, num_resamples=4000) == pytest.approx(expected, rel=0.05)


def test_statistic_is_applied_per_resample():
    values = torch.randn(200, generator=torch.Generator().manual_seed(1), dtype=torch.double)
    plain = bootstrap_std_error(values, 3)
    assert bootstrap_std_error(values, 3, statistic=lambda x: 7 * x.mean(dim=-1)) == pytest.approx(7 * plain)
    delta_method = float((-values.mean()).exp()) * plain
    exponential = bootstrap_std_error(values, 3, statistic=lambda x: torch.exp(-x.mean(dim=-1)))
    assert exponential == pytest.approx(delta_method, rel=0.05)


def test_seed_decides_and_global_state_is_left_alone():
    values = torch.arange(10.0)
    before = torch.random.get_rng_state()
    first = bootstrap_std_error(values, 1)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert bootstrap_std_error(values, 1) == first
    assert bootstrap_std_error(values, 2) != first


def test_what_cannot_be_estimated():
    assert math.isnan(bootstrap_std_error(torch.tensor([1.0]), 0))
    assert math.isnan(bootstrap_std_error(torch.tensor([1.0, math.inf, 2.0]), 0))
    with pytest.raises(LexergyError, match="one number per window"):
        bootstrap_std_error(torch.zeros(2, 2), 0)


def test_groups_are_drawn_as_wholes():
    generator = torch.Generator().manual_seed(0)
    means = torch.randn(50, generator=generator, dtype=torch.double)
    within = torch.randn(50, 8, generator=generator, dtype=torch.double) / 10
    groups = [group for group in "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWX" for _ in range(8)]
    values = means[:, None] + within
    of_means = bootstrap_std_error(values.mean(1), 0)
    assert bootstrap_std_error(values.flatten(), 0, groups=groups) == pytest.approx(of_means, rel=0.1)
    assert bootstrap_std_error(values.flatten(), 0) < 0.5 * of_means
    assert math.isnan(bootstrap_std_error(values.flatten(), 0, groups=[0] * 400))
    with pytest.raises(LexergyError, match="3 groups"):
        bootstrap_std_error(values.flatten(), 0, groups=[0, 1, 2])


def test_statistic_of_groups_of_unequal_size():
    values = torch.randn(300, generator=torch.Generator().manual_seed(2), dtype=torch.double)
    groups = [int(math.sqrt(number)) for number in range(300)]
    plain = bootstrap_std_error(values, 0, groups=groups)
    exponential = bootstrap_std_error(values, 0, groups=groups, statistic=lambda x: torch.exp(-x.mean(dim=-1)))
    assert exponential == pytest.approx(float((-values.mean()).exp()) * plain, rel=0.05)


def test_splits_of_the_same_data_overlap():
    """Means of 10 random splits of one data set of 100 numbers: how far these are from the truth, over data sets."""
    generator = torch.Generator().manual_seed(0)
    num_test, errors, plain, corrected = 20, [], [], []
    for _ in range(400):
        data = torch.randn(100, generator=generator, dtype=torch.double)
        splits = torch.stack([data[torch.randperm(100, generator=generator)[:num_test]].mean() for _ in range(10)])
        errors.append(float(splits.mean()))
        plain.append(float(splits.std()) / math.sqrt(10))
        corrected.append(corrected_std_error(splits, num_test, 100 - num_test))
    truth = float(torch.tensor(errors).std())
    assert float(torch.tensor(plain).mean()) < 0.7 * truth
    assert float(torch.tensor(corrected).mean()) == pytest.approx(truth, rel=0.15)
    assert math.isnan(corrected_std_error(torch.ones(1), 1, 1))
    with pytest.raises(LexergyError, match="0 test examples"):
        corrected_std_error(torch.ones(3), 0, 1)


def test_means_from_sums_are_those_of_the_resampled_values():
    values = torch.randn(60, generator=torch.Generator().manual_seed(4), dtype=torch.double)
    groups = [number // 7 for number in range(60)]
    means = resampled_means(values, groups, 3)
    assert means.shape == (1000,)
    assert float(means.std()) == pytest.approx(bootstrap_std_error(values, 3, groups=groups), rel=1e-9)
