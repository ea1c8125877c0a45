import math

import pytest
import torch
import torch.nn.functional as functional

from lexergy.core.losses import hardest_negatives, nce_loss, nce_metrics, precision_at_1, ranking_loss, ranking_nce_loss


def test_nce_loss_by_hand():
    loss = nce_loss(torch.tensor([math.log(3.0)]), torch.tensor([[math.log(4.0)], [0.0]]))
    expected = math.log(1 + 3) + (math.log(1 + 1 / 4) + math.log(2)) / 2
    assert float(loss) == pytest.approx(expected)
    assert float(nce_loss(torch.zeros(2), torch.zeros(2, 3))) == pytest.approx(2 * math.log(2))


def test_nce_loss_is_twice_the_cross_entropy_of_minus_the_energy():
    data, noise = torch.randn(2, 6, generator=torch.Generator().manual_seed(0))
    labels = torch.tensor([1.0] * 6 + [0.0] * 6)
    reference = functional.binary_cross_entropy_with_logits(-torch.cat([data, noise]), labels)
    torch.testing.assert_close(nce_loss(data, noise), 2 * reference)


def test_nce_loss_does_not_overflow():
    assert float(nce_loss(torch.tensor([-1e4]), torch.tensor([1e4]))) == 0
    assert float(nce_loss(torch.tensor([1e4]), torch.tensor([-1e4]))) == 2e4


def exact_gradient(energy: torch.Tensor, log_data: torch.Tensor, log_noise: torch.Tensor) -> torch.Tensor:
    """Gradient of the loss's expectation over an enumerable space, one energy per outcome."""
    energy = energy.clone().requires_grad_()
    loss = torch.zeros((), dtype=torch.double)
    for i in range(len(energy)):
        for j in range(len(energy)):
            loss = loss + (log_data[i] + log_noise[j]).exp() * nce_loss(energy[i], energy[j])
    (gradient,) = torch.autograd.grad(loss, energy)
    return gradient


def test_exact_gradient_vanishes_at_the_log_ratio_and_not_elsewhere():
    # Theorem 1: P_LM exp(-E) = P_data, so E = log P_LM - log P_data, normalised by itself.
    generator = torch.Generator().manual_seed(1)
    log_data = torch.randn(9, generator=generator, dtype=torch.double).mul(1.5).log_softmax(0)
    log_noise = torch.randn(9, generator=generator, dtype=torch.double).mul(1.5).log_softmax(0)
    optimum = log_noise - log_data
    assert exact_gradient(optimum, log_data, log_noise).abs().max() < 1e-14
    for elsewhere in (-optimum, optimum + 0.1, torch.zeros_like(optimum)):
        assert exact_gradient(elsewhere, log_data, log_noise).abs().max() > 1e-3


def test_nce_metrics_by_hand():
    metrics = nce_metrics(torch.tensor([-1.0, 2.0, -3.0, 0.0]), torch.tensor([[0.5, math.log(2.0)], [-1.0, 0.0]]))
    assert metrics.accuracy == pytest.approx((2.5 / 4 + 2.5 / 4) / 2)
    assert metrics.energy_data == pytest.approx(-0.5)
    assert metrics.energy_noise == pytest.approx((math.log(2) - 0.5) / 4)
    assert metrics.log_z == pytest.approx(math.log((math.exp(-0.5) + 0.5 + math.e + 1) / 4))


def test_nce_metrics_tell_the_classes_apart():
    assert nce_metrics(torch.tensor([-1.0]), torch.tensor([1.0])).accuracy == 1
    assert nce_metrics(torch.tensor([1.0]), torch.tensor([-1.0])).accuracy == 0
    assert nce_metrics(torch.tensor([-1.0]), torch.tensor([-1.0, -1.0, -1.0])).accuracy == 0.5


def test_ranking_loss_by_hand():
    data, noise = torch.tensor([0.0, 2.0]), torch.tensor([[0.5, 3.0], [1.0, 2.5]])
    assert float(ranking_loss(data, noise)) == pytest.approx((0.5 + 0 + 2 + 0.5) / 4)
    assert float(ranking_loss(data, noise, margin=0.1)) == pytest.approx((0 + 0 + 1.1 + 0) / 4)


def test_ranking_loss_knows_only_differences_within_a_context():
    generator = torch.Generator().manual_seed(0)
    data, noise = torch.randn(5, generator=generator), torch.randn(5, 3, generator=generator)
    shift = torch.randn(5, generator=generator)
    torch.testing.assert_close(ranking_loss(data + shift, noise + shift[:, None]), ranking_loss(data, noise))
    assert not torch.isclose(nce_loss(data + shift, noise + shift[:, None]), nce_loss(data, noise))


def test_ranking_loss_lowers_people_and_raises_negatives_inside_the_margin_only():
    data = torch.tensor([0.0]).requires_grad_()
    noise = torch.tensor([[0.5, 1.5]]).requires_grad_()
    ranking_loss(data, noise).backward()
    assert data.grad.tolist() == [0.5]
    assert noise.grad.tolist() == [[-0.5, 0.0]]


def test_precision_at_1_by_hand():
    assert precision_at_1(torch.tensor([0.0, 1.0]), torch.tensor([[1.0, 2.0], [0.5, 2.0]])) == 0.5
    assert precision_at_1(torch.tensor([0.0]), torch.tensor([[0.0, 2.0]])) == 0.5  # a tie is drawn by lot
    assert precision_at_1(torch.tensor([0.0]), torch.tensor([[0.0, -1.0]])) == 0.0  # not a tie for the first place
    assert precision_at_1(torch.zeros(3), torch.zeros(3, 4)) == pytest.approx(1 / 5)


def test_the_hardest_negative_is_the_likeliest():
    assert hardest_negatives(torch.tensor([[0.5, -2.0, 1.0], [3.0, 4.0, 2.0]])).tolist() == [1, 2]


def test_ranking_nce_by_hand():
    loss = ranking_nce_loss(torch.tensor([math.log(2.0), 0.0]), torch.tensor([[0.0, -math.log(3.0)], [0.0, 0.0]]))
    assert float(loss) == pytest.approx((-math.log(0.5 / (0.5 + 1 + 3)) + math.log(3)) / 2)


def test_ranking_nce_does_not_feel_a_constant_of_a_prefix_and_nce_does():
    generator = torch.Generator().manual_seed(2)
    data, noise = torch.randn(5, generator=generator), torch.randn(5, 3, generator=generator)
    constants = torch.randn(5, generator=generator)
    shifted = data + constants, noise + constants.unsqueeze(-1)
    torch.testing.assert_close(ranking_nce_loss(*shifted), ranking_nce_loss(data, noise))
    assert abs(float(nce_loss(*shifted) - nce_loss(data, noise))) > 0.1


def test_ranking_nce_has_its_optimum_at_the_log_ratio_for_any_number_of_negatives():
    """Its expectation over people's text and all pairs of the LM's, in a space of four."""
    generator = torch.Generator().manual_seed(3)
    log_data, log_noise = torch.randn(2, 4, generator=generator, dtype=torch.double).log_softmax(-1)

    def gradient(energy: torch.Tensor) -> float:
        energy = energy.clone().requires_grad_()
        loss = torch.zeros((), dtype=torch.double)
        for person in range(4):
            for first in range(4):
                for second in range(4):
                    share = (log_data[person] + log_noise[first] + log_noise[second]).exp()
                    noise = energy[torch.tensor([[first, second]])]
                    loss = loss + share * ranking_nce_loss(energy[person : person + 1], noise)
        return float(torch.autograd.grad(loss, energy)[0].abs().max())

    optimum = log_noise - log_data
    assert gradient(optimum) < 1e-14
    assert gradient(optimum + 7.0) < 1e-14
    assert gradient(-optimum) > 1e-2
