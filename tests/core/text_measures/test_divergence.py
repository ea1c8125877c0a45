"""MAUVE by hand, and on curves whose area is known."""

import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from scipy.special import beta

from lexergy.core.text_measures.divergence import SCALING, histogram, mauve, mauve_across_halves, num_bins_for, quantise
from lexergy.errors import LexergyError

FIRST = torch.tensor([0.5, 0.3, 0.2, 0.0], dtype=torch.double)
SECOND = torch.tensor([0.1, 0.2, 0.3, 0.4], dtype=torch.double)


def test_histograms_that_share_nothing_have_the_area_of_a_known_curve():
    """KL(q || r) = -log(1 - w) and KL(p || r) = -log w: the area is c B(c + 1, c)."""
    first, second = torch.tensor([0.3, 0.7, 0.0]), torch.tensor([0.0, 0.0, 1.0])
    area = mauve(first, second, num_mixtures=4001)
    assert float(area) == pytest.approx(SCALING * beta(SCALING + 1, SCALING), rel=1e-4)


def test_a_histogram_is_as_near_to_itself_as_can_be():
    assert float(mauve(FIRST, FIRST)) == pytest.approx(1)
    assert float(mauve(FIRST, SECOND)) < float(mauve(FIRST, (3 * FIRST + SECOND) / 4)) < 0.999


def test_the_area_by_hand():
    """Each mixture and each trapezium in turn, from either axis."""

    def divergence(own, mixed):
        return sum(a * math.log(a / b) for a, b in zip(own, mixed, strict=True) if a > 0)

    first, second = FIRST.tolist(), SECOND.tolist()
    points = [(1.0, 0.0)]
    for weight in np.linspace(1e-6, 1 - 1e-6, 25):
        mixed = [weight * a + (1 - weight) * b for a, b in zip(first, second, strict=True)]
        points.append((math.exp(-5 * divergence(second, mixed)), math.exp(-5 * divergence(first, mixed))))
    points.append((0.0, 1.0))
    pairs = list(pairwise(points))
    below = sum((x - u) * (y + v) / 2 for (x, y), (u, v) in pairs)
    beside = sum((v - y) * (x + u) / 2 for (x, y), (u, v) in pairs)
    assert float(mauve(FIRST, SECOND)) == pytest.approx(below)
    assert float(mauve(SECOND, FIRST)) == pytest.approx(beside)


def test_many_at_once():
    rows = torch.stack([FIRST, SECOND])
    areas = mauve(rows, SECOND.expand(2, 4))
    assert areas.tolist() == pytest.approx([float(mauve(FIRST, SECOND)), 1])


def test_histograms_by_hand():
    bins = torch.tensor([0, 2, 2])
    assert histogram(bins, 4, smoothing=0).tolist() == pytest.approx([1 / 3, 0, 2 / 3, 0])
    assert histogram(bins, 4).tolist() == pytest.approx([1.5 / 5, 0.5 / 5, 2.5 / 5, 0.5 / 5])
    twice = histogram(bins, 4, torch.tensor([[1, 1, 1], [2, 0, 1]]), smoothing=0)
    assert twice.tolist() == [pytest.approx([1 / 3, 0, 2 / 3, 0]), pytest.approx([2 / 3, 0, 1 / 3, 0])]


def test_bins_are_those_of_directions():
    """Three directions, whatever the length of a vector along them."""
    generator = torch.Generator().manual_seed(0)
    kinds = torch.arange(60) % 3
    rows = torch.eye(3)[kinds] + 0.05 * torch.randn(60, 3, generator=generator)
    bins = quantise(rows * torch.logspace(-2, 2, 60)[:, None], 3, seed=0)
    assert [len(set(bins[kinds == kind].tolist())) for kind in range(3)] == [1, 1, 1]
    assert len(set(bins.tolist())) == 3
    assert torch.equal(bins, quantise(rows, 3, seed=0))


def test_how_many_bins():
    assert [num_bins_for(count) for count in (4, 64, 500)] == [2, 6, 50]
    with pytest.raises(LexergyError, match="5 bins for 3 texts"):
        quantise(torch.eye(3), 5, seed=0)


def test_across_halves_no_text_meets_one_of_its_own_group():
    """Four groups in four directions: the halves share nothing; one group alone has no halves."""
    groups = [place % 4 for place in range(80)]
    rows = torch.eye(4)[groups] + 0.01 * torch.randn(80, 4, generator=torch.Generator().manual_seed(0))
    assert mauve_across_halves(rows, rows, groups, seed=0) < 0.1
    alike = mauve_across_halves(rows, rows, [place // 20 for place in range(80)], seed=0)
    assert 0.9 < alike <= 1
    assert math.isnan(mauve_across_halves(rows, rows, [0] * 80, seed=0))
