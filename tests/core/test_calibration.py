import pytest
import torch
from scipy.optimize import minimize_scalar

from lexergy.core.calibration import COLDEST, HOTTEST, fit_temperature
from lexergy.errors import LexergyError


def energies_with(temperature, n=20_000, seed=0):
    """Energies of texts whose true P(machine) is sigmoid(E / temperature)."""
    generator = torch.Generator().manual_seed(seed)
    energies = 3 * torch.randn(n, generator=generator, dtype=torch.double)
    return energies, torch.rand(n, generator=generator, dtype=torch.double) < torch.sigmoid(energies / temperature)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
def test_the_temperature_of_the_data_is_found(temperature):
    assert fit_temperature(*energies_with(temperature)) == pytest.approx(temperature, rel=0.05)


def test_it_minimises_the_loss_of_both_classes_weighed_alike():
    energies, is_machine = energies_with(2.0, n=60)
    n, m = int((~is_machine).sum()), int(is_machine.sum())

    def loss(temperature):
        log_odds = energies / temperature
        people, machine = log_odds[~is_machine], log_odds[is_machine]
        cross_entropy = torch.nn.functional.binary_cross_entropy_with_logits
        spared = cross_entropy(people, torch.full_like(people, 1 / (n + 2)))
        found = cross_entropy(machine, torch.full_like(machine, (m + 1) / (m + 2)))
        return float(spared + found)

    best = minimize_scalar(loss, bounds=(0.1, 20), method="bounded", options={"xatol": 1e-9}).x
    assert fit_temperature(energies, is_machine) == pytest.approx(best, rel=1e-4)


def test_calibration_changes_no_ranking_and_no_verdict():
    energies, is_machine = energies_with(2.0, n=100)
    for labels in (is_machine, ~is_machine):  # a detector that is right, one that is always wrong
        calibrated = energies / fit_temperature(energies, labels)
        assert torch.equal(calibrated.argsort(), energies.argsort())
        assert torch.equal(calibrated > 0, energies > 0)
    assert fit_temperature(energies, ~is_machine) == pytest.approx(HOTTEST)


def test_a_few_texts_without_a_mistake_do_not_make_it_certain():
    energies = torch.tensor([-2.0, -1.0, 1.0, 2.0])
    temperature = fit_temperature(energies, energies > 0)
    assert temperature > COLDEST * 10
    assert 0.6 < float(torch.sigmoid(energies[2] / temperature)) < 0.9  # about (2 + 1) / (2 + 2)


def test_one_class_cannot_be_calibrated():
    with pytest.raises(LexergyError, match="3 texts of people and 0 of machines"):
        fit_temperature(torch.randn(3, generator=torch.Generator().manual_seed(0)), torch.zeros(3, dtype=torch.bool))
