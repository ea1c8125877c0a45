"""Metrics of sums over sentences: values by hand and by the project's other paths, intervals by what they must do."""

import numpy as np
import pytest

from lexergy.core.estimation.corpus import (
    accuracy,
    corpus_difference,
    corpus_estimate,
    macro_f1,
    mean_of,
    micro_f1,
    variance_of,
)


def test_metrics_by_hand():
    assert accuracy(np.array([3.0, 4.0])) == 75
    sums = np.array([[2.0, 4, 2, 0, 1, 3]])  # two types: right, predicted, gold
    assert micro_f1(sums) == pytest.approx([200 * 2 / 10])
    assert macro_f1(sums) == pytest.approx([200 * 2 / 6 / 2])
    values = np.array([1.0, 2.0, 6.0])
    sums = np.array([values.sum(), (values**2).sum(), 3])
    assert mean_of(sums) == pytest.approx(3)
    assert variance_of(sums) == pytest.approx(values.var())


def test_a_metric_of_nothing_is_0():
    assert accuracy(np.zeros(2)) == 0
    assert micro_f1(np.zeros(3)) == 0


def test_the_corpus_is_not_a_mean_over_sentences():
    parts = np.array([[1.0, 1], [0, 9]])
    assert corpus_estimate([parts], accuracy).value == pytest.approx(10)


def test_the_interval_is_that_of_a_mean_where_sentences_are_alike():
    generator = np.random.default_rng(0)
    right = generator.binomial(1, 0.7, 400).astype(float)
    estimate = corpus_estimate([np.stack([right, np.ones(400)], 1)], accuracy)
    assert estimate.half_width == pytest.approx(1.96 * 100 * right.std() / 20, rel=0.1)


def test_a_difference_is_paired_by_sentence():
    generator = np.random.default_rng(0)
    right = generator.binomial(8, 0.5, 200).astype(float)
    first, second = (np.stack([right + more, np.full(200, 10.0)], 1) for more in (1, 0))
    apart = corpus_difference([first], [second], accuracy)
    assert apart == pytest.approx((10, 10, 10))
    assert corpus_difference([second], [first], accuracy).value == pytest.approx(-10)
    assert corpus_estimate([first], accuracy).half_width > 1


def test_several_runs_are_told_by_their_spread():
    runs = [np.array([[value, 10.0]]) for value in (5.0, 6.0, 7.0)]
    estimate = corpus_estimate(runs, accuracy)
    assert estimate.value == pytest.approx(60)
    assert estimate.half_width == pytest.approx(4.303 * 10 / 3**0.5, rel=1e-3)


def test_no_sentences_have_no_estimate():
    nothing = np.zeros((0, 2))
    assert np.isnan(corpus_estimate([nothing], accuracy).value)
    assert np.isnan(corpus_difference([nothing], [nothing], accuracy).value)
