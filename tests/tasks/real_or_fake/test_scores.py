"""Accuracies by hand, and the best threshold."""

import numpy as np
import pytest

from lexergy.tasks.real_or_fake.scores import Scores, best_stump, combined_auc

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


def random_scores(shift: float, num: int, seed: int) -> Scores:
    random = np.random.default_rng(seed)
    return Scores(random.normal(size=(num, 3)) + np.array([0.0, shift, shift]), tuple(range(num)))


def test_a_single_auc_is_that_of_all_metrics():
    scores = random_scores(0.8, 50, seed=1)
    single = combined_auc([scores], [1.0])
    metric = scores.metrics().auc
    assert single.value == pytest.approx(metric.value)
    assert single.std_error == pytest.approx(metric.std_error)


def test_a_difference_of_aucs_is_paired_by_document():
    """Twice the same text set differs by nothing; two of other documents by the error of either."""
    scores, others = random_scores(0.8, 50, seed=1), random_scores(0.8, 50, seed=2)
    assert combined_auc([scores, scores], [1.0, -1.0]) == (0, 0)
    apart = Scores(others.energies, tuple(range(50, 100)))
    errors = [combined_auc([part], [1.0]).std_error for part in (scores, apart)]
    assert combined_auc([scores, apart], [1.0, -1.0]).std_error == pytest.approx(np.hypot(*errors), rel=0.15)


def test_select_keeps_the_order():
    some = SCORES.select(np.array([2, 0]))
    assert some.documents == ("b", "a")
    assert some.accuracies.tolist() == [0.75, 0.75]
