import math

import pytest
import torch
from sklearn.metrics import balanced_accuracy_score, roc_auc_score, roc_curve

from lexergy.core.detection import classification
from lexergy.core.detection.classification import calibration_error, classification_metrics
from lexergy.errors import LexergyError


def texts(num=400, num_documents=40, seed=0):
    """Energies with ties, labels of unequal number, and documents."""
    generator = torch.Generator().manual_seed(seed)
    is_machine = torch.rand(num, generator=generator) < 0.3
    energies = torch.randn(num, generator=generator, dtype=torch.double) + 1.5 * is_machine - 0.4
    documents = torch.randint(num_documents, (num,), generator=generator).tolist()
    return (energies * 8).round() / 8, is_machine, documents


def test_values_are_those_of_scikit_learn():
    energies, is_machine, documents = texts()
    found = classification_metrics(energies, is_machine, documents)
    assert found.balanced_accuracy.value == pytest.approx(balanced_accuracy_score(is_machine, energies > 0))
    assert found.auc.value == pytest.approx(roc_auc_score(is_machine, energies))
    false_positive_rate, recall, _ = roc_curve(is_machine, energies, drop_intermediate=False)
    for limit, metric in ((0.01, found.recall_at_1), (0.05, found.recall_at_5)):
        assert metric.value == pytest.approx(recall[false_positive_rate <= limit].max())


def test_resampling_is_repeating(monkeypatch):
    """A text of weight 2 counts as two texts, for every metric: parity with scikit-learn on the longer list."""
    energies, is_machine, _ = texts(seed=1)
    times = torch.randint(0, 3, (len(energies),), generator=torch.Generator().manual_seed(2))
    again = torch.arange(len(energies)).repeat_interleave(times)
    weights = times.double()[None]
    ranks = energies.unique(return_inverse=True)[1]
    longer, labels = energies[again], is_machine[again]
    found = classification.roc_auc(ranks, is_machine, weights)
    assert float(found) == pytest.approx(roc_auc_score(labels, longer))
    found = classification.balanced_accuracy(energies > 0, is_machine, weights)
    assert float(found) == pytest.approx(balanced_accuracy_score(labels, longer > 0))
    false_positive_rate, recall, _ = roc_curve(labels, longer, drop_intermediate=False)
    found = classification.recall_at(0.05, ranks, is_machine, weights)
    assert float(found) == pytest.approx(recall[false_positive_rate <= 0.05].max())
    one = torch.ones(1, len(again), dtype=torch.double)
    found = calibration_error(energies.sigmoid(), is_machine, weights)
    assert float(found) == pytest.approx(float(calibration_error(longer.sigmoid(), labels, one)))


def test_calibration_error_by_hand():
    probabilities = torch.tensor([0.9, 0.9, 0.9, 0.2, 1.0], dtype=torch.double)
    is_machine = torch.tensor([True, True, False, False, True])
    # bins: three at .9 (two are machines), one at .2 (none is), one at 1 (it is); a machine weighs 1/6, a person 1/4
    expected = abs(2 * (0.9 - 1) / 6 + 0.9 / 4) + 0.2 / 4 + 0
    found = calibration_error(probabilities, is_machine, torch.ones(1, 5, dtype=torch.double))
    assert float(found) == pytest.approx(expected)


def test_calibration_does_not_depend_on_how_many_there_are_of_each_class():
    energies, is_machine, _ = texts(seed=3)
    again = torch.arange(len(energies)).repeat_interleave(1 + 2 * is_machine.long())
    found = [
        float(
            calibration_error(energies[rows].sigmoid(), is_machine[rows], torch.ones(1, len(rows), dtype=torch.double))
        )
        for rows in (torch.arange(len(energies)), again)
    ]
    assert found[0] == pytest.approx(found[1])


def test_interval_is_of_documents():
    """Each text ten times over is as telling as once when copies share a document, and not when they do not."""
    energies, is_machine, _ = texts(num=300)
    once = classification_metrics(energies, is_machine, range(300)).auc
    copies, labels = energies.repeat(10), is_machine.repeat(10)
    grouped = classification_metrics(copies, labels, list(range(300)) * 10).auc
    assert grouped.value == pytest.approx(once.value)
    assert grouped.std_error == pytest.approx(once.std_error)
    alone = classification_metrics(copies, labels, range(3000)).auc
    assert alone.std_error == pytest.approx(once.std_error / math.sqrt(10), rel=0.1)
    assert once.low == pytest.approx(once.value - 1.96 * once.std_error, abs=1e-4)


def test_chunks_change_nothing(monkeypatch):
    whole = classification_metrics(*texts(), num_resamples=50)
    monkeypatch.setattr(classification, "WEIGHTS_AT_ONCE", 3000)
    assert classification_metrics(*texts(), num_resamples=50) == whole


def test_perfect_chance_and_single_documents():
    is_machine = torch.arange(200) % 2 == 0
    perfect = classification_metrics(is_machine * 80.0 - 40.0, is_machine, range(200))
    for metric, best in zip(
        (perfect.balanced_accuracy, perfect.auc, perfect.recall_at_1, perfect.recall_at_5, perfect.calibration_error),
        (1, 1, 1, 1, 0),
        strict=True,
    ):
        assert metric.value == pytest.approx(best)
        # No resample differs, and 100 texts of either class are not all texts: the rule of three.
        assert abs(metric.high - metric.low) == pytest.approx(3 / 100)
    constant = classification_metrics(torch.zeros(200), is_machine, range(200))
    assert constant.auc.value == constant.balanced_accuracy.value == 0.5
    assert constant.recall_at_5.value == 0
    assert constant.calibration_error.value == 0
    alone = classification_metrics(torch.arange(200.0), is_machine, [7] * 200).auc
    assert math.isnan(alone.low)
    assert math.isnan(alone.high)


def test_one_text_of_a_class_has_no_interval_however_many_there_are_of_the_other():
    energies = torch.cat((torch.arange(10.0), torch.tensor([20.0, 21.0])))
    is_machine = torch.arange(12) >= 10
    alone = classification_metrics(energies[:11], is_machine[:11], list(range(11))).auc
    assert (alone.value, math.isnan(alone.low), math.isnan(alone.high)) == (1.0, True, True)
    two = classification_metrics(energies, is_machine, list(range(12))).auc
    assert (two.low, two.high) == (0.0, 1.0)  # the rule of three counts the two, not the twelve


def test_mistakes():
    with pytest.raises(LexergyError, match="one of each per text"):
        classification_metrics(torch.zeros(3), torch.tensor([True, False]), [0, 1, 2])
    with pytest.raises(LexergyError, match="of one class"):
        classification_metrics(torch.zeros(2), torch.tensor([True, True]), [0, 1])
    with pytest.raises(LexergyError, match="NaN"):
        classification_metrics(torch.tensor([math.nan, 0]), torch.tensor([True, False]), [0, 1])
