"""Whether more pairs are worth their time, and when to stop adding them."""

import math

import pytest
import torch
from torch import Tensor

from lexergy.core.fitting.learning_curves import (
    HeldOutLoss,
    Stop,
    doubling_pays,
    grown,
    held_out_loss,
    pair_losses,
    reason_to_stop,
)
from lexergy.core.fitting.linear_heads import folds_of, held_out_energies
from lexergy.core.losses import nce_loss, ranking_nce_loss

DOCUMENTS = [document for document in range(60) for _ in range(4)]


def point(pairs: int = 128, fall: float = 0.1, fall_std_error: float = 0.03) -> HeldOutLoss:
    return HeldOutLoss(pairs, loss=0.7, std_error=0.05, fall=fall, fall_std_error=fall_std_error)


def pairs_of(num_features: int, gap: float = 1.0) -> Tensor:  # (240, 2, F)
    """People's features are `gap` above the LM's in the first place, and like them in the others."""
    generator = torch.Generator().manual_seed(0)
    features = torch.randn(240, 2, num_features, generator=generator, dtype=torch.double)
    features[:, 0, 0] += gap
    return features


def measured(features: Tensor, penalty: float) -> HeldOutLoss:
    penalties = torch.full((features.shape[-1],), penalty, dtype=torch.double)
    return held_out_loss(features, penalties, folds_of(DOCUMENTS, 6, seed=0), DOCUMENTS, seed=0)


@pytest.mark.parametrize(
    ("fall", "pays"), [(0.1, True), (0.03, True), (0.029, False), (0.0, False), (-0.1, False), (-0.029, False)]
)
def test_a_doubling_pays_when_the_loss_falls_by_its_error(fall, pays):
    assert doubling_pays(point(fall=fall)) is pays


def test_an_error_that_nobody_knows_stops_nothing():
    assert doubling_pays(point(fall_std_error=math.nan))


def test_many_features_want_more_pairs():
    found = measured(pairs_of(num_features=60), penalty=0.02)
    assert found.fall > 3 * found.fall_std_error > 0
    assert doubling_pays(found)


def test_one_strong_feature_has_had_enough():
    found = measured(pairs_of(num_features=1), penalty=0.02)
    assert abs(found.fall) < 0.01
    assert not doubling_pays(found)


@pytest.mark.parametrize("loss", [nce_loss, ranking_nce_loss])
def test_the_losses_of_pairs_have_the_loss_as_their_mean(loss):
    energies = torch.randn(20, 4, generator=torch.Generator().manual_seed(0), dtype=torch.double)
    torch.testing.assert_close(pair_losses(energies, loss).mean(), loss(energies[:, 0], energies[:, 1:]))


def test_the_loss_is_that_of_cross_validation_and_the_fall_is_paired():
    features = pairs_of(num_features=20)
    penalty, folds = torch.full((20,), 0.1, dtype=torch.double), folds_of(DOCUMENTS, 6, seed=0)
    found = held_out_loss(features, penalty, folds, DOCUMENTS, seed=0)
    energies = held_out_energies(features, penalty, folds)
    assert found.loss == pytest.approx(float(nce_loss(energies[:, 0], energies[:, 1:])))
    assert found.pairs == 240
    assert found.fall_std_error < found.std_error / 2


def test_parts_grow_by_half_and_end_with_the_windows():
    sizes = [64]
    while sizes[-1] < 500:
        sizes.append(grown(sizes[-1], 500))
    assert sizes == [64, 96, 144, 216, 324, 486, 500]
    assert grown(1, 10) == 2


@pytest.mark.parametrize(
    ("last", "most", "seconds", "stop"),
    [
        (point(), 500, 10.0, None),
        (point(), 128, 10.0, Stop.WINDOWS),
        (point(fall=0.01), 128, 10.0, Stop.WINDOWS),
        (point(fall=0.01), 500, 10.0, Stop.CURVE),
        (point(fall=-0.1), 500, 10.0, Stop.CURVE),
        (point(pairs=127, fall=-0.1), 500, 10.0, None),  # no doubling yet
        (point(), 500, 66.0, None),
        (point(), 500, 67.0, Stop.BUDGET),  # 192 pairs would take 100.5
        (point(), 140, 67.0, None),  # 140 take 73
        (point(fall=0.01), 500, 67.0, Stop.CURVE),
        (point(), 500, 1000.0, Stop.BUDGET),
    ],
)
def test_why_no_more_pairs_are_added(last, most, seconds, stop):
    assert reason_to_stop([point(pairs=64), last], most, seconds, budget=100.0) is stop


def test_the_first_part_is_stopped_by_time_or_windows_alone():
    first = point(pairs=64, fall=-1.0)
    assert reason_to_stop([first], 500, 1.0, budget=100.0) is None
    assert reason_to_stop([first], 64, 1.0, budget=100.0) is Stop.WINDOWS
    assert reason_to_stop([first], 500, 90.0, budget=100.0) is Stop.BUDGET


def test_every_stop_has_its_own_sentence():
    assert len({stop.sentence for stop in Stop}) == 3
