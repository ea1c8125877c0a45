"""Whether people's text is such as the joint model would write: its rank among weighted samples of the same prefix."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from lexergy.core.estimation.bootstrap import bootstrap_std_error


@dataclass(frozen=True)
class Ranks:
    """Where the energy of people's text lies among those that the joint model would draw, 0 the lowest, 1 the highest.

    Among x and n samples of the LM, of which x is the joint model's, each of the n + 1 is x with probability
    p_i = w_i / sum_j w_j: the density of all of them and of which is x is w(x) / Z times that of the LM. So the rank,
    uniform between the weight of all that have a lower energy and the same with x's own, is uniform in [0, 1] for any
    n and any tail if the joint model is right (simulation-based calibration, Talts et al. 2018; between two ends as
    in Czado et al. 2009, so that nothing is random).
    """

    low: Tensor  # (B,) the share of the weight that lies at a lower energy
    high: Tensor  # (B,) the same with x itself and what has the same energy
    is_lowest: Tensor  # (B,) 1 where no sample's energy is as low
    lowest_weight: Tensor  # (B,) the share of the lowest energy: how often the joint model's text would be lowest

    def shares(self, edges: Tensor) -> Tensor:  # (S + 1,) -> (B, S)
        """How much of each window's rank lies between neighbouring edges."""
        width = (self.high - self.low)[:, None]
        below = ((edges.double() - self.low[:, None]) / width).clamp(0, 1)  # (B, S + 1)
        return below.diff(dim=1)


@dataclass(frozen=True)
class RankHistogram:
    """The share of windows in equal parts of the ranks: 1 / S in each if the joint model is right."""

    shares: tuple[float, ...]  # S
    std_errors: tuple[float, ...]  # S, bootstrap over documents


def ranks(energy: Tensor, log_weights: Tensor) -> Ranks:  # (B,), (B, n)
    """Ranks of people's text of energy E(x) among the LM's samples, log w_i = -E(x_i)."""
    own = -energy.double()[:, None]  # (B, 1)
    pooled = torch.cat([own, log_weights.double()], dim=1)  # (B, n + 1)
    weights = torch.softmax(pooled, dim=1)
    lower, equal = pooled > own, pooled == own
    low = (weights * lower).sum(1)
    return Ranks(
        low=low,
        high=low + (weights * equal).sum(1),
        is_lowest=(~(pooled[:, 1:] >= own).any(1)).double(),
        lowest_weight=weights.amax(1),
    )


def rank_histogram(found: Ranks, documents: Sequence[Hashable], num_bins: int, seed: int = 0) -> RankHistogram:
    """The histogram of ranks over windows; those of one document are drawn again together."""
    shares = found.shares(torch.linspace(0, 1, num_bins + 1))  # (B, S)
    std_errors = tuple(bootstrap_std_error(part, seed, groups=documents) for part in shares.T)
    return RankHistogram(tuple(shares.mean(0).tolist()), std_errors)
