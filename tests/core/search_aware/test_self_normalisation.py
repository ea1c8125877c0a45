import pytest
import torch

from lexergy.core.search_aware.self_normalisation import log_normaliser, log_z_penalty

WRITTEN = torch.tensor([[True, True], [True, False]])


def test_the_penalty_is_the_squared_log_normaliser_of_what_is_written():
    scores = torch.tensor([[[0.1, 0.4], [1.0, 2.0]], [[0.25, 0.25], [7.0, 7.0]]]).log()
    expected = [torch.tensor(0.5).log() ** 2 + torch.tensor(3.0).log() ** 2, torch.tensor(0.5).log() ** 2]
    assert log_z_penalty(scores, WRITTEN).tolist() == pytest.approx([float(value) for value in expected])
    assert torch.allclose(log_z_penalty(scores.log_softmax(-1), WRITTEN), torch.zeros(2))


def test_mean_and_variance_over_all_steps():
    scores = torch.tensor([[[2.0, 2.0], [0.5, 0.5]], [[1.0, 3.0], [7.0, 7.0]]]).log()
    values = torch.tensor([4.0, 1.0, 4.0]).log()
    result = log_normaliser(scores, WRITTEN)
    assert result.mean == pytest.approx(float(values.mean()))
    assert result.variance == pytest.approx(float((values**2).mean() - values.mean() ** 2))
