"""The rank of people's text among weighted samples: uniform for text of the joint model, and for no other."""

import itertools

import pytest
import torch

from lexergy.core.estimation.coverage import rank_histogram, ranks

SIGMA = 1.5


def made(shift: float, num_windows: int = 4000, num_samples: int = 32):
    """Log-normal weights; the text is the joint model's own (shift 1), or the LM's (shift 0)."""
    generator = torch.Generator().manual_seed(0)
    own = SIGMA * torch.randn(num_windows, generator=generator, dtype=torch.double) + shift * SIGMA**2
    return -own, SIGMA * torch.randn(num_windows, num_samples, generator=generator, dtype=torch.double)


def test_the_joint_models_own_text_has_uniform_ranks_by_enumeration():
    """Every world of a text from P and two samples of the LM: the mean rank below u is u."""
    lm, weights = torch.tensor([[0.5, 0.3, 0.2], [0.2, 6.0, 1.0]], dtype=torch.double)
    joint = lm * weights / (lm * weights).sum()
    edges = torch.linspace(0, 1, 8, dtype=torch.double)
    shares = torch.zeros(7, dtype=torch.double)
    lowest = expected = 0.0
    for text, *rest in itertools.product(range(3), repeat=3):
        found = ranks(-weights[text].log()[None], weights[rest].log()[None])
        probability = joint[text] * lm[rest].prod()
        shares += probability * found.shares(edges)[0]
        lowest += float(probability * found.is_lowest)
        # Alone the lowest: with ties no text is.
        alone = (weights[[text, *rest]] == weights[[text, *rest]].max()).sum() == 1
        expected += float(probability * found.lowest_weight * alone)
    torch.testing.assert_close(shares, torch.full_like(shares, 1 / 7), atol=1e-12, rtol=0)
    assert lowest == pytest.approx(expected)


def test_samples_need_not_be_many():
    for num_samples in (2, 32):
        histogram = rank_histogram(ranks(*made(1.0, num_samples=num_samples)), range(4000), 10)
        for share, std_error in zip(histogram.shares, histogram.std_errors, strict=True):
            assert abs(share - 0.1) < 4 * std_error


def test_a_joint_model_that_is_wrong_is_told_which_way():
    under = rank_histogram(ranks(*made(2.0)), range(4000), 10)  # people's text has more weight than the model's own
    over = rank_histogram(ranks(*made(0.0)), range(4000), 10)
    assert under.shares[0] > 0.1 + 8 * under.std_errors[0] > over.shares[0] > 0
    assert over.shares[-1] > 0.1 + 8 * over.std_errors[-1]
    found = ranks(*made(2.0))
    assert found.is_lowest.mean() > found.lowest_weight.mean() > ranks(*made(0.0)).is_lowest.mean()


def test_ranks_by_hand():
    found = ranks(torch.tensor([0.0]), torch.tensor([[3.0, 1.0, 1.0, 4.0]]).log())
    assert (float(found.low), float(found.high)) == (pytest.approx(0.7), pytest.approx(1.0))
    assert (float(found.is_lowest), float(found.lowest_weight)) == (0.0, pytest.approx(0.4))
    assert found.shares(torch.tensor([0.0, 0.7, 0.8, 1.0]))[0].tolist() == pytest.approx([0, 1 / 3, 2 / 3], abs=1e-6)


def test_windows_of_a_document_are_drawn_together():
    found = ranks(*made(1.0, num_windows=400))
    alone = rank_histogram(found, range(400), 4)
    together = rank_histogram(found, [window // 100 for window in range(400)], 4)
    assert alone.shares == together.shares
    assert alone.std_errors != together.std_errors
