"""Probabilities that mean what they say: temperature scaling of a detector's energies."""

import math

import torch
from torch import Tensor

from lexergy.errors import LexergyError

COLDEST, HOTTEST = 1e-3, 1e3  # limits of the temperature
_HALVINGS = 60


def fit_temperature(energies: Tensor, is_machine: Tensor) -> float:  # (N,), (N,) bool
    """The T > 0 with which P(machine | x) = sigmoid(E(x) / T) is likeliest on texts not trained on.

    argmin_T -sum_i t_i log sigmoid(E_i / T) + (1 - t_i) log sigmoid(-E_i / T) (Guo et al. 2017). The classes weigh
    the same, whatever their sizes. Targets are (n + 1) / (n + 2) and 1 / (n + 2) for n texts of the class, not 1 and
    0 (Platt 1999), so that a few texts told apart without a mistake do not make it certain of everything. T is
    positive: calibration never changes a ranking, nor the side of 0 on which an energy lies.
    """
    energies, is_machine = energies.detach().double().flatten().cpu(), is_machine.bool().flatten().cpu()
    counts = torch.stack([(~is_machine).sum(), is_machine.sum()]).double()
    if counts.min() == 0 or not energies.isfinite().all():
        raise LexergyError(
            f"{int(counts[0])} texts of people and {int(counts[1])} of machines to calibrate on; expected some of "
            "each, with finite energies."
        )
    size = counts[is_machine.long()]  # (N,), of a text's own class
    target = torch.where(is_machine, (size + 1) / (size + 2), 1 / (size + 2))

    def slope(inverse: float) -> float:
        """Of the loss in 1 / T, in which it is convex."""
        return float(((torch.sigmoid(inverse * energies) - target) * energies / size).sum())

    low, high = 1 / HOTTEST, 1 / COLDEST
    for _ in range(_HALVINGS):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if slope(middle) < 0 else (low, middle)
    return 1 / math.sqrt(low * high)
