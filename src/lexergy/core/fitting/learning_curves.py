"""Whether more pairs are worth their time: what the last doubling has brought on documents held out, and when to stop.

A head is fitted to the pairs of other documents than a pair's own, once to all n of them and once to a random half:

    d_i = loss_i(half) - loss_i(all),    fall = 1/N sum_i d_i,    stop when fall < SE(fall)

with the standard error over documents. Both heads are measured on the same pairs, so that the error is that of a paired
difference: how hard a document is for both of them does not count.
"""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from enum import StrEnum

import torch
from torch import Tensor

from lexergy.core.estimation.findings import std_error
from lexergy.core.fitting.linear_heads import PairLoss, held_out_energies
from lexergy.core.losses import nce_loss

GROWTH = 1.5  # pairs after a part, as a multiple of those before it


class Stop(StrEnum):
    """Why no more pairs were added."""

    CURVE = "curve"
    BUDGET = "budget"
    WINDOWS = "windows"

    @property
    def sentence(self) -> str:
        """For people."""
        return {
            Stop.CURVE: "the last doubling lowered the loss by less than its standard error",
            Stop.BUDGET: "the next part would not have ended within the budget",
            Stop.WINDOWS: "all windows are used",
        }[self]


@dataclass(frozen=True)
class HeldOutLoss:
    """The loss of a head fitted to so many pairs on documents held out, and by how much a head fitted to half is worse.

    Standard errors are over documents.
    """

    pairs: int
    loss: float
    std_error: float
    fall: float
    fall_std_error: float


@dataclass(frozen=True)
class LearningCurve:
    """An energy's losses as pairs were added, and why that came to an end."""

    energy: str
    points: tuple[HeldOutLoss, ...]
    stop: Stop


def pair_losses(energies: Tensor, loss: PairLoss = nce_loss) -> Tensor:  # (N, 1 + K) -> (N,)
    """The loss of each pair alone."""
    return torch.stack([loss(pair[:1], pair[None, 1:]) for pair in energies])


def held_out_loss(
    features: Tensor,  # (N, 1 + K, F)
    penalty: Tensor,  # (F,)
    folds: Tensor,  # (N,)
    documents: Sequence[Hashable],  # N
    seed: int,
    loss: PairLoss = nce_loss,
) -> HeldOutLoss:
    """What all pairs and a random half of them are worth; the prior of the half's head stays what it is."""
    count = len(features)
    half = torch.randperm(count, generator=torch.Generator().manual_seed(seed)) < count / 2
    all_losses = pair_losses(held_out_energies(features, penalty, folds, loss).double(), loss)
    half_losses = pair_losses(held_out_energies(features, 2 * penalty, folds, loss, kept=half).double(), loss)
    falls = half_losses - all_losses  # (N,)
    return HeldOutLoss(
        pairs=count,
        loss=float(all_losses.mean()),
        std_error=std_error(all_losses.numpy(), groups=documents),
        fall=float(falls.mean()),
        fall_std_error=std_error(falls.numpy(), groups=documents),
    )


def doubling_pays(point: HeldOutLoss) -> bool:
    """Whether the last doubling lowered the loss by at least the standard error of that fall."""
    return not point.fall < point.fall_std_error  # nothing is concluded from an error that is NaN


def grown(pairs: int, most: int) -> int:
    """How many pairs there are after the next part: half as many again, and no more than there can be."""
    return min(math.ceil(GROWTH * pairs), most)


def reason_to_stop(points: Sequence[HeldOutLoss], most: int, seconds: float, budget: float) -> Stop | None:
    """Why no part should follow those of these points, which took so many seconds; None where one should.

    The curve is asked from the first doubling on: of fewer pairs the half is too small to tell. A part is begun when it
    will end in time at the pace so far, seconds * grown(n) / n <= budget, so that the first is always there.
    """
    pairs = points[-1].pairs
    if pairs >= most:
        return Stop.WINDOWS
    if pairs >= 2 * points[0].pairs and not doubling_pays(points[-1]):
        return Stop.CURVE
    if seconds * grown(pairs, most) / pairs > budget:
        return Stop.BUDGET
    return None
