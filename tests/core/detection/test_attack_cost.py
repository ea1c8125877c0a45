"""What an attack costs, by hand and by the metrics that everything else is judged by."""

import pytest
import torch

from lexergy.core.detection.attack_cost import under_attack
from lexergy.core.detection.classification import classification_metrics
from lexergy.errors import LexergyError

PEOPLE = torch.tensor([-3.0, -2.0, -1.0, 0.0])
MACHINE = torch.tensor([-0.5, 1.0, 2.0, 3.0])


def test_costs_by_hand():
    attacked = torch.tensor([-2.5, 1.0, -0.5, 3.0])
    told = under_attack(PEOPLE, MACHINE, attacked, range(4), range(4))
    assert told.auc.value == pytest.approx((1 + 4 + 3 + 4) / 16)
    assert told.auc_cost.value == pytest.approx((3 + 4 + 4 + 4 - 12) / 16)
    assert told.recall.value == pytest.approx(2 / 4)  # above the highest of people's
    assert told.recall_cost.value == pytest.approx(1 / 4)
    assert told.auc_cost.low < told.auc_cost.value < told.auc_cost.high


def test_an_attack_that_changes_nothing_costs_nothing():
    told = under_attack(PEOPLE, MACHINE, MACHINE, range(4), range(4))
    assert told.auc_cost == told.recall_cost == (0, 0, 0)


def test_values_and_intervals_are_those_of_the_usual_metrics():
    generator = torch.Generator().manual_seed(0)
    people, machine, attacked = torch.randn(3, 40, generator=generator) + torch.tensor([[-1.0], [1.0], [0.3]])
    documents = [number // 2 for number in range(40)]
    told = under_attack(people, machine, attacked, documents, documents, seed=3)
    usual = classification_metrics(
        torch.cat((people, attacked)), torch.arange(80) >= 40, [*documents, *documents], seed=3
    )
    assert told.auc == usual.auc
    assert told.recall == usual.recall_at_5


def test_a_paired_cost_is_surer_than_its_ends():
    generator = torch.Generator().manual_seed(0)
    people, machine = torch.randn(2, 60, generator=generator) + torch.tensor([[-0.5], [0.5]])
    told = under_attack(people, machine, machine - 0.2, range(60), range(60))
    assert told.auc_cost.half_width < 0.5 * (told.auc.high - told.auc.low) / 2


def test_an_energy_for_each_text():
    with pytest.raises(LexergyError, match="4 of machine texts and 3 after"):
        under_attack(PEOPLE, MACHINE, MACHINE[:3], range(4), range(4))
