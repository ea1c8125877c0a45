"""Have the chains mixed? Split R-hat and effective sample size of a quantity that is followed along each chain."""

from typing import NamedTuple

import numpy as np
from torch import Tensor

R_HAT_OF_LONG_CHAINS = 1.01  # Vehtari et al. 2021
# Chains of text are short, and R-hat of T independent draws per chain is itself above 1, by about (F - 1) / T where F
# has an F distribution: by no more than 3 / T nearly always.
R_HAT_NOISE = 3.0
MIXED_R_HAT = 1.05  # however short the chains are
LEAST_ESS = 100.0  # a mean is then known to a tenth of the quantity's deviation
FEWEST_DRAWS = 4


class Mixing(NamedTuple):
    """NaN where the chains are too few or too short to tell, or where the quantity never changed."""

    r_hat: float
    ess: float
    num_chains: int
    num_draws: int  # per chain

    @property
    def r_hat_limit(self) -> float:
        """What R-hat is to stay below: independent draws do, in chains of any length."""
        return max(R_HAT_OF_LONG_CHAINS, min(MIXED_R_HAT, 1 + R_HAT_NOISE / self.num_draws))

    @property
    def mixed(self) -> bool:
        return self.r_hat < self.r_hat_limit and self.ess >= LEAST_ESS


def mixing(draws: Tensor) -> Mixing:  # (C, T)
    """Rank-normalised split R-hat and bulk effective sample size over chains (Vehtari et al. 2021)."""
    num_chains, num_draws = draws.shape
    values = draws.double().cpu().numpy()
    if num_chains < 2 or num_draws < FEWEST_DRAWS or np.ptp(values) == 0:
        return Mixing(np.nan, np.nan, num_chains, num_draws)
    # Imported here: a second of start-up.
    from arviz_stats.base import array_stats

    r_hat = float(array_stats.rhat(values, chain_axis=0, draw_axis=1))
    return Mixing(r_hat, float(array_stats.ess(values, chain_axis=0, draw_axis=1)), num_chains, num_draws)
