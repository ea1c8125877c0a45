"""Changed tokens are where they should be, and an attack goes where the gradient points."""

import pytest
import torch

from lexergy.models.energies import BiLSTMEnergy, BiLSTMEnergyConfig, LinearEnergy, LinearEnergyConfig, perturbations
from lexergy.models.energies.perturbations import attack, replaced, swapped, window_energies

WINDOWS = torch.arange(12).view(2, 6)


def test_changes_by_hand():
    assert replaced(WINDOWS, 2, [9]).tolist() == [[0, 1, 9, 3, 4, 5], [6, 7, 9, 9, 10, 11]]
    assert replaced(WINDOWS, 5, [8, 9]).tolist() == [[0, 1, 2, 3, 4, 8], [6, 7, 8, 9, 10, 8]]
    assert swapped(WINDOWS, 1).tolist() == [[0, 2, 1, 3, 4, 5], [6, 8, 7, 9, 10, 11]]
    assert swapped(WINDOWS, 5).tolist() == [[0, 1, 2, 3, 5, 4], [6, 7, 8, 9, 11, 10]]
    assert WINDOWS.tolist() == torch.arange(12).view(2, 6).tolist()


def linear_energy() -> LinearEnergy:
    energy = LinearEnergy(LinearEnergyConfig(vocab_size=12))
    with torch.no_grad():
        for parameter in energy.parameters():
            if parameter.numel() >= 12:
                parameter.copy_(torch.linspace(-1, 1, 12).view_as(parameter))
    return energy.eval()


@pytest.mark.parametrize(("goal", "extreme"), [("lower", 0), ("raise", 11)])
def test_a_linear_energy_is_attacked_where_it_pays_most(goal, extreme):
    """For a bag of tokens the first order is exact: the worst (best) allowed token becomes the extreme one."""
    windows = torch.tensor([[3, 9, 5, 4, 6, 7]])
    allowed = torch.tensor([[True, False, True, True, True, True]])
    steps = list(attack(linear_energy(), windows, allowed, goal, replacements=2))
    assert len(steps) == 3
    assert torch.equal(steps[0].windows, windows)
    expected = [3, 9, 5, 4, extreme, extreme] if goal == "lower" else [extreme, 9, 5, extreme, 6, 7]
    assert steps[2].windows.tolist() == [expected]
    energies = torch.cat([step.energies for step in steps])
    assert (energies.diff() < 0).all() if goal == "lower" else (energies.diff() > 0).all()
    torch.testing.assert_close(steps[1].energies, window_energies(linear_energy(), steps[1].windows))


def test_forbidden_tokens_are_not_written_and_chunks_change_nothing(monkeypatch):
    torch.manual_seed(0)
    energy = BiLSTMEnergy(BiLSTMEnergyConfig(vocab_size=12, embedding_size=4, hidden_size=4, num_layers=1), 0)
    torch.nn.init.normal_(energy.head.weight)
    windows = torch.randint(12, (5, 6), generator=torch.Generator().manual_seed(1))
    allowed = torch.ones(5, 6, dtype=torch.bool)
    forbidden = tuple(range(8))
    whole = list(attack(energy, windows, allowed, "lower", replacements=3, forbidden_tokens=forbidden))
    changed = whole[-1].windows != windows
    assert (changed.sum(1) <= 3).all()
    assert (whole[-1].windows[changed] >= 8).all()
    monkeypatch.setattr(perturbations, "LOGITS_AT_ONCE", 6 * 12 * 2)
    parts = list(attack(energy, windows, allowed, "lower", replacements=3, forbidden_tokens=forbidden))
    assert all(torch.equal(one.windows, other.windows) for one, other in zip(whole, parts, strict=True))
