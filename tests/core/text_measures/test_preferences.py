"""Votes by hand, numbers that Table 2 prints, and intervals that hold what they promise."""

import numpy as np
import pytest

from lexergy.core.text_measures.preferences import (
    agreement,
    better_half,
    krippendorff_alpha,
    sentence_rates,
    two_way_share,
)


def rates(less, equal, more, without_votes=0):
    """Of sentences whose votes are 0:2, 1:1 and 2:0."""
    first = np.repeat([0, 1, 2, 0], [less, equal, more, without_votes])
    second = np.repeat([2, 1, 0, 0], [less, equal, more, without_votes])
    return sentence_rates(first, second, np.arange(len(first)) < less + equal + more)


def test_table_2_of_the_paper():
    """Base LM against BALM: two rows of the table are one experiment, 25 sentences of which were even."""
    table = rates(145, 25, 140, without_votes=23)
    assert 100 * table.less_rate == pytest.approx(46.77, abs=0.006)
    assert table.less_p_value == pytest.approx(0.88, abs=0.006)
    assert 100 * table.less_or_equal_rate == pytest.approx(54.85, abs=0.015)
    assert table.less_or_equal_p_value == pytest.approx(0.050, abs=0.0006)
    joint = rates(187, 0, 136)
    assert 100 * joint.less_rate == pytest.approx(57.89, abs=0.006)
    assert joint.less_p_value == pytest.approx(0.0027, abs=0.00006)


def test_no_votes_give_no_rates():
    assert np.isnan(rates(0, 0, 0, without_votes=4).less_rate)
    assert np.isnan(two_way_share(np.array([]), [], [])).all()
    assert np.isnan(agreement(np.zeros((0, 2)), [])).all()


def study(generator, prompt_spread, annotator_spread, prompts=60, annotators=12, votes=3):
    """Votes whose chance is .6 on average, more or less on some prompts and by some people."""
    of_prompt = generator.choice([-prompt_spread, prompt_spread], prompts)
    of_annotator = generator.choice([-annotator_spread, annotator_spread], annotators)
    who = np.concatenate([generator.choice(annotators, votes, replace=False) for _ in range(prompts)])
    which = np.repeat(np.arange(prompts), votes)
    chance = 0.6 + of_prompt[which] + of_annotator[who]
    return (generator.random(len(who)) < chance).astype(float), which.tolist(), who.tolist()


@pytest.mark.parametrize(("prompt_spread", "annotator_spread"), [(0.0, 0.0), (0.38, 0.0), (0.0, 0.38), (0.2, 0.18)])
def test_intervals_hold_for_other_prompts_and_other_people(prompt_spread, annotator_spread):
    """95 % of 100 studies, by 1e-3 tails between 87 and 100; and no wider than they need be."""
    generator = np.random.default_rng(1)
    estimates = [two_way_share(*study(generator, prompt_spread, annotator_spread)) for _ in range(100)]
    covered = sum(estimate.low <= 0.6 <= estimate.high for estimate in estimates)
    spread = np.std([estimate.value for estimate in estimates])
    half_width = np.mean([estimate.half_width for estimate in estimates])
    assert covered >= 87
    assert half_width < 2.9 * spread


def test_an_interval_stays_within_0_and_1_and_needs_two_prompts():
    unanimous = two_way_share(np.ones(20), [number // 2 for number in range(20)], [0, 1] * 10)
    assert unanimous.high == 1
    assert 0 < unanimous.low < 1
    alone = two_way_share(np.array([1.0, 0.0, 1.0, 1.0]), [0, 1, 2, 3], ["me"] * 4)
    assert 0 <= alone.low < 0.75 < alone.high <= 1
    assert np.isnan(two_way_share(np.array([1.0]), [0], ["me"]).low)


def test_krippendorff_alpha_by_hand():
    """Krippendorff's own example of nominal data with missing values (2011, Sec. C): .743."""
    values = [
        [1, 2, 3, 3, 2, 1, 4, 1, 2, None, None, None],
        [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, None, 3],
        [None, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, None],
        [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, None],
    ]
    counts = np.array([[sum(row[unit] == value for row in values) for value in range(1, 6)] for unit in range(12)])
    assert krippendorff_alpha(counts) == pytest.approx(0.743, abs=5e-4)


def test_agreement_of_the_sure_and_of_the_careless():
    generator = np.random.default_rng(0)
    sure = 3 * np.eye(2, dtype=int)[generator.integers(2, size=300)]
    assert agreement(sure, range(300)) == (1, 1, 1)
    careless = np.stack([generator.binomial(3, 0.5, 300)], 1)
    careless = np.concatenate([careless, 3 - careless], 1)
    estimate = agreement(careless, range(300))
    assert estimate.low < 0 < estimate.high
    assert estimate.half_width < 0.15
    assert np.isnan(krippendorff_alpha(np.array([[3, 0], [3, 0]])))


@pytest.mark.parametrize(("accuracies", "bar", "kept"), [([0.9, 0.5, 0.7, 0.6], 0.7, 2), ([0.4, 0.8, 0.8], 0.8, 2)])
def test_the_better_half(accuracies, bar, kept):
    assert better_half(accuracies) == bar
    assert sum(accuracy >= bar for accuracy in accuracies) == kept
