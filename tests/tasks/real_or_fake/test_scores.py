"""Accuracies by hand, and the best threshold."""

import numpy as np
import pytest

from lexergy.tasks.real_or_fake.scores import Scores, best_stump

SCORES = Scores(np.array([[-1.0, 2.0, -3.0], [0.5, 1.0, 1.0], [-2.0, -2.0, 3.0]]), ("a", "a", "b"))


def test_accuracies_by_hand():
    # people's rightly spared: yes, no, yes; machine's found: 1/2, 1, 1/2
    assert SCORES.accuracies.tolist() == [0.75, 0.5, 0.75]
    assert SCORES.metrics().balanced_accuracy.value == pytest.approx(SCORES.accuracies.mean())


def test_precision_at_1_by_hand():
    # a twin is lower; people's is lowest; a tie of two for the lowest
    assert SCORES.precisions.tolist() == [0.0, 1.0, 0.5]


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_the_best_stump_is_that_of_exhaustive_search(sign):
    random = np.random.default_rng(3)
    energies = sign * (random.normal(size=(60, 3)) + np.array([0.0, 0.8, 0.8]) + 5)
    scores = Scores(energies, tuple(range(60)))
    values = np.unique(energies)
    thresholds = (values[1:] + values[:-1]) / 2
    best = max(
        scores.shifted(threshold, direction).accuracies.mean() for threshold in thresholds for direction in (1.0, -1.0)
    )
    threshold, direction = best_stump(scores)
    assert direction == sign
    assert scores.shifted(threshold, direction).accuracies.mean() == pytest.approx(best)


def test_select_keeps_the_order():
    some = SCORES.select(np.array([2, 0]))
    assert some.documents == ("b", "a")
    assert some.accuracies.tolist() == [0.75, 0.75]
