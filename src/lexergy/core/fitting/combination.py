"""Several energies as one: the coefficients of their sum by noise contrastive estimation."""

from dataclasses import dataclass

import torch
from torch import Tensor

from lexergy.core.fitting.convex import minimise
from lexergy.core.losses import nce_loss
from lexergy.errors import LexergyError


@dataclass(frozen=True)
class Combination:
    """E(x) = c_0 + sum_i c_i E_i(x)."""

    constant: float
    coefficients: Tensor  # (n,) float64

    def energy(self, parts: Tensor) -> Tensor:  # (..., n) -> (...)
        return self.constant + parts.double() @ self.coefficients


def fit_combination(data: Tensor, noise: Tensor) -> Combination:  # (N, n), (M, n)
    """The coefficients that minimise Eq. 3 (Deng et al. 2020) of c_0 + sum_i c_i E_i, the parts being fixed.

    With as many positives as negatives this is logistic regression on the parts' energies: convex, so that there
    is one answer. The prior c_i ~ N(1/n, 1), which starts from the mean of the parts and counts as much as one
    pair, keeps it finite where the parts separate the pairs, and unique where two parts agree.
    """
    if data.ndim != 2 or noise.ndim != 2 or data.shape[1] != noise.shape[1] or not len(data) or not len(noise):
        raise LexergyError(
            f"the parts' energies are {tuple(data.shape)} for people's text and {tuple(noise.shape)} for the LM's; "
            "expected (N, parts) and (M, parts) with at least one row each."
        )
    if not (data.isfinite().all() and noise.isfinite().all()):
        raise LexergyError("some part's energies are NaN or infinite; expected finite numbers; check its training.")
    data, noise = data.detach().double(), noise.detach().double()
    num_parts = data.shape[1]
    start = torch.full((num_parts,), 1 / num_parts, dtype=torch.double)
    # Energies of very different sizes would make the problem narrow: the search is for c_i times their size.
    size = torch.cat([data, noise]).square().mean(0).sqrt().clamp_min(1e-12)  # (n,)

    def objective(scaled: Tensor) -> Tensor:  # (1 + n,)
        constant, coefficients = scaled[0], scaled[1:] / size
        prior = (coefficients - start).square().sum() / (2 * len(data))
        return nce_loss(constant + data @ coefficients, constant + noise @ coefficients) + prior

    fitted = minimise(objective, torch.cat([torch.zeros(1, dtype=torch.double), start * size]))
    return Combination(float(fitted[0]), fitted[1:] / size)
