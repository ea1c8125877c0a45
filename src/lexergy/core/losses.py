"""Losses on energies."""

from dataclasses import dataclass

import torch
import torch.nn.functional as functional
from torch import Tensor

from lexergy.core.estimation import partition


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


def hardest_negatives(energy_noise: Tensor) -> Tensor:  # (..., K) -> (...)
    """The index of the most offending negative, argmin_k E(x_k-) (Eq. 1, "Real or fake", 2020; LeCun et al. 2006).

    `nce_loss` on these alone is the paper's Eq. 1, whose second term is printed as + log sigma(-E(x-)), which
    would lower the energy of negatives: -log sigma(E(x-)) = softplus(-E(x-)) is meant.
    """
    return energy_noise.argmin(-1)


def ranking_loss(energy_data: Tensor, energy_noise: Tensor, margin: float = 1.0) -> Tensor:  # (N,), (N, K) -> ()
    """mean max(0, margin + E(x+) - E(x-)) over positives and their own negatives (Eq. 2, App. C, "Real or fake").

    Only differences of energies of the same context count, so that the energy is free up to a constant for each
    context, where `nce_loss` asks for its sign. The paper's margin is 1; its Figure 3 draws .1.
    """
    return functional.relu(margin + energy_data.unsqueeze(-1) - energy_noise).mean()


def ranking_nce_loss(energy_data: Tensor, energy_noise: Tensor) -> Tensor:  # (N,), (N, K) -> ()
    """NCE in its ranking form: which of 1 + K texts is people's? (Sec. 3, Ma & Collins 2018).

    -mean log exp(-E(x+)) / (exp(-E(x+)) + sum_k exp(-E(x_k-))), the K texts drawn from the LM given x+'s prefix. Only
    differences of energies of the same prefix count: E is free up to a constant for each prefix, where `nce_loss`
    asks for log Z = 0 and needs a family that can give it. An energy of zero gives log (1 + K).
    """
    energies = torch.cat([energy_data.unsqueeze(-1), energy_noise], -1)  # (N, 1 + K)
    return (energy_data + torch.logsumexp(-energies, -1)).mean()


def precision_at_1(energy_data: Tensor, energy_noise: Tensor) -> float:  # (N,), (N, K)
    """How often people's text has the lowest energy among its negatives (P@1, App. C, "Real or fake")."""
    return float(first_places(energy_data, energy_noise).mean())


def first_places(energy_data: Tensor, energy_noise: Tensor) -> Tensor:  # (N,), (N, K) -> (N,)
    """Whether each of people's texts has the lowest energy among its negatives: 1 or 0.

    Texts that share the lowest energy are drawn by lot: a constant energy scores 1 / (1 + K), which is chance.
    """
    data = energy_data.detach().unsqueeze(-1)  # (N, 1)
    first = (data <= energy_noise).all(-1).double()
    return first / (1 + (data == energy_noise).sum(-1))


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
