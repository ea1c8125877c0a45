"""Losses on energies."""

from dataclasses import dataclass

import torch
import torch.nn.functional as functional
from torch import Tensor

from lexergy.core import partition


def nce_loss(energy_data: Tensor, energy_noise: Tensor) -> Tensor:  # any shapes -> ()
    """Conditional noise contrastive estimation with the language model as noise, to be minimised.

    mean softplus(E(x+)) + mean softplus(-E(x-)), the negative of Eq. 3, Deng et al. 2020 (Gutmann &
    Hyvarinen 2010; Ma & Collins 2018); x+ is people's text, x- a sample of the LM given the same prefix.
    At the optimum P_LM(x) exp(-E(x)) = P_data(x) (Theorem 1).

    It is the binary cross-entropy of a classifier with logit -E for "people's", the two classes averaged
    apart and added, so that several negatives per positive do not tip the balance: with as many of each, it
    is twice `binary_cross_entropy_with_logits`. An energy of zero gives 2 log 2.

    Example: `nce_loss(energy.score(prefix, human), energy.score(prefix, samples)).backward()`.
    """
    return functional.softplus(energy_data).mean() + functional.softplus(-energy_noise).mean()


@dataclass(frozen=True)
class NCEMetrics:
    """What to watch while an energy is trained."""

    accuracy: float  # mean of both classes' accuracies; an energy of exactly zero counts half
    energy_data: float
    energy_noise: float
    log_z: float  # log E_LM[exp(-E)], zero at the optimum


def nce_metrics(energy_data: Tensor, energy_noise: Tensor) -> NCEMetrics:  # (...), (...)
    """Accuracy of the classifier -E > 0, mean energies, and the estimate T_n of log E_LM[exp(-E)]."""
    data, noise = energy_data.detach().double(), energy_noise.detach().double()
    half = torch.tensor(0.5, dtype=torch.double, device=data.device)
    recognised_data = torch.heaviside(-data, half).mean()
    recognised_noise = torch.heaviside(noise, half).mean()
    return NCEMetrics(
        accuracy=float((recognised_data + recognised_noise) / 2),
        energy_data=float(data.mean()),
        energy_noise=float(noise.mean()),
        log_z=float(partition.lower_bound(-noise.flatten())),
    )
