"""A linear head on the token means of frozen LMs, fitted by regularised logistic regression."""

from collections.abc import Sequence
from typing import cast

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import GroupKFold, cross_val_predict
from torch import Tensor, nn

from lexergy.models.energies import StatesEnergy

STRENGTHS = tuple(10.0**power for power in range(-6, 1))  # sklearn's C, the inverse of the L2 penalty
FOLDS = 5


def fit_head(
    energies: Sequence[StatesEnergy],  # of one LM each
    features: Sequence[Tensor],  # (N, F_i) for each, of blocks
    is_machine: Tensor,  # (N,) bool
    groups: Sequence[str],  # N
) -> float:
    """Fit mean, deviation and linear head to tell machine blocks from people's; the C that was chosen.

    Logistic regression of the log-odds E = w . (f - mean) / std + b with an L2 penalty on w, the classes weighed
    alike. The penalty is the one with the smallest loss by cross-validation over groups, so that no group is both
    learnt and judged by. It is the NCE loss (Eq. 3, Deng et al. 2020) with weight decay, solved to the end.

    Of several LMs f has all their features, and each energy has its own part of w, so that E is their sum.
    """
    standard = np.concatenate([_standardised(*own) for own in zip(energies, features, strict=True)], 1)
    labels = is_machine.numpy().astype(int)
    strength = _best_strength(standard, labels, groups)
    fitted = _regression(strength).fit(standard, labels)
    parts = torch.from_numpy(fitted.coef_).split([own.shape[1] for own in features], 1)
    for number, (energy, weights) in enumerate(zip(energies, parts, strict=True)):
        linear = cast(nn.Linear, energy.head[-1])
        with torch.no_grad():
            linear.weight.copy_(weights)
            linear.bias.copy_(torch.from_numpy(fitted.intercept_ if number == 0 else np.zeros(1)))
    return strength


def _standardised(energy: StatesEnergy, features: Tensor) -> np.ndarray:
    energy.fit_standardisation(features)
    standard: np.ndarray = ((features.double() - energy.mean.double().cpu()) / energy.std.double().cpu()).numpy()
    return standard


def _best_strength(standard: np.ndarray, labels: np.ndarray, groups: Sequence[str]) -> float:
    folds = GroupKFold(min(FOLDS, len(set(groups))))
    weights = np.where(labels == 1, 1 / labels.sum(), 1 / (1 - labels).sum())
    losses = {}
    for strength in STRENGTHS:
        held_out = cross_val_predict(
            _regression(strength), standard, labels, groups=groups, cv=folds, method="predict_proba"
        )
        losses[strength] = log_loss(labels, held_out, sample_weight=weights)
    return min(losses, key=lambda strength: losses[strength])


def _regression(strength: float) -> LogisticRegression:
    return LogisticRegression(C=strength, class_weight="balanced", max_iter=2000)
