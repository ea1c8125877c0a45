"""Have the chains mixed? Split R-hat and effective sample size of a quantity that is followed along each chain."""

from typing import NamedTuple

import numpy as np
from torch import Tensor

# Vehtari et al. 2021 ask for R-hat below 1.01 and 400 independent draws' worth. Chains of text are short: 1.01 is what
# independent draws themselves show in 8 chains of 26. These two independent draws meet nearly always from 200 on.
MIXED_R_HAT = 1.05
LEAST_ESS = 100.0  # a mean is then known to a tenth of the quantity's deviation
FEWEST_DRAWS = 4


class Mixing(NamedTuple):
    """NaN where the chains are too few or too short to tell, or where the quantity never changed."""

    r_hat: float
    ess: float
    num_chains: int
    num_draws: int  # per chain

    @property
    def mixed(self) -> bool:
        return self.r_hat < MIXED_R_HAT and self.ess >= LEAST_ESS


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
