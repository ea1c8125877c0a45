"""p-values of texts among people's: small cases by hand, and the rate of people accused over many splits."""

import math

import pytest
import torch

from lexergy.core.detection.conformal import (
    benjamini_hochberg,
    bin_of,
    check_level,
    conformal_p_values,
    conformal_threshold,
    length_bins,
    mondrian_p_values,
    texts_needed,
)
from lexergy.errors import LexergyError

PEOPLE = torch.tensor([0.1, 0.4, 0.4, 0.7])


def test_p_values_by_hand():
    scores = torch.tensor([0.0, 0.1, 0.4, 0.5, 0.7, 0.9])
    assert conformal_p_values(scores, PEOPLE).tolist() == pytest.approx([1, 1, 0.8, 0.4, 0.4, 0.2])


def test_a_text_is_above_the_threshold_where_its_p_value_is_at_most_the_level():
    generator = torch.Generator().manual_seed(1)
    people, scores = (torch.randint(12, (size,), generator=generator).double() for size in (19, 40))  # with ties
    for level in (0.05, 0.1, 0.34, 0.95):
        accused = scores > conformal_threshold(people, level)
        assert torch.equal(accused, conformal_p_values(scores, people) <= level + 1e-9)


@pytest.mark.parametrize(("level", "needed"), [(0.05, 19), (0.01, 99), (0.5, 1), (0.3, 3)])
def test_so_many_texts_support_a_level(level, needed):
    assert texts_needed(level) == needed
    check_level(level, needed)
    with pytest.raises(LexergyError, match=f"needs at least {needed}; give more"):
        check_level(level, needed - 1)


@pytest.mark.parametrize("level", [0, 1, -0.1, math.nan])
def test_a_level_is_a_share(level):
    with pytest.raises(LexergyError, match="more than 0 and less than 1"):
        check_level(level, 100)


@pytest.mark.parametrize(("num_people", "level"), [(19, 0.05), (37, 0.05), (30, 0.2)])
def test_people_are_accused_no_oftener_than_said_and_hardly_less(num_people, level):
    """Over 5,000 splits; the exact rate is floor(level (n + 1)) / (n + 1) where no scores are equal."""
    trials = 5_000
    scores = torch.randn(trials, num_people + 1, generator=torch.Generator().manual_seed(0)).exp()
    accused = sum(float(conformal_p_values(row[:1], row[1:]) <= level + 1e-9) for row in scores) / trials
    exact = math.floor(level * (num_people + 1) + 1e-9) / (num_people + 1)
    assert exact <= level + 1e-9
    assert accused == pytest.approx(exact, abs=4 * math.sqrt(exact / trials))


def test_adjusted_p_values_by_hand():
    p_values = torch.tensor([0.04, 0.01, 0.03, 0.5])
    assert benjamini_hochberg(p_values).tolist() == pytest.approx([0.16 / 3, 0.04, 0.16 / 3, 0.5])
    assert benjamini_hochberg(torch.tensor([])).tolist() == []


def test_of_the_accused_few_are_people():
    """40 people and 10 machines among one calibration set: the mean share of people among the accused."""
    generator = torch.Generator().manual_seed(0)
    shares = []
    for _ in range(400):
        people, asked = torch.randn(199, generator=generator), torch.randn(50, generator=generator)
        asked[:10] += 4
        accused = benjamini_hochberg(conformal_p_values(asked, people)) <= 0.2
        shares.append(float(accused[10:].sum()) / max(1, int(accused.sum())))
    mean = sum(shares) / len(shares)
    assert 0.1 < mean <= 0.2  # exactly .16 = .2 times the share of people, where p-values are fine-grained


def test_bins_of_lengths_hold_enough_texts():
    tokens = [10] * 5 + [40] * 3 + [100] * 9 + [1000]
    assert length_bins(tokens, 5) == [0, 16]  # 10; then 40 and the rest: the last is too few alone
    assert length_bins(tokens, 3) == [0, 16, 64]
    assert length_bins(tokens, 100) == [0]
    assert [bin_of(length, [0, 16, 64]) for length in (3, 16, 63, 64, 5000)] == [0, 16, 16, 64, 64]


def test_each_category_has_its_own_rate():
    """Verse scores higher than prose whoever wrote it: together all verse would be accused."""
    generator = torch.Generator().manual_seed(0)
    kinds = ["verse", "prose"] * 1000
    people = torch.randn(4000, generator=generator)
    people[0::2] += 5
    found = mondrian_p_values(people[2000:], kinds, people[:2000], kinds)
    alone = conformal_p_values(people[2000::2], people[:2000:2])
    assert torch.equal(found[0::2], alone)
    for first in (0, 1):
        assert float((found[first::2] <= 0.1).double().mean()) == pytest.approx(0.1, abs=0.04)
