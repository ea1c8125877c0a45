"""Many values of a few groups as curves: how often they are where."""

from collections.abc import Mapping

import numpy as np
from scipy.stats import gaussian_kde

from lexergy.report.figures.picture import Series

GRID_POINTS = 200


def histogram(groups: Mapping[str, np.ndarray], num_bins: int) -> tuple[Series, ...]:
    """The share of each group's values (n,) in bins that all groups have in common, at the middle of each bin."""
    values = np.concatenate(list(groups.values()))
    edges = np.linspace(values.min(), values.max(), num_bins + 1) if len(values) else np.arange(2.0)
    middles = ((edges[:-1] + edges[1:]) / 2).tolist()
    return tuple(
        Series(label, middles, (np.histogram(group, edges)[0] / max(1, len(group))).tolist())
        for label, group in groups.items()
    )


def densities(groups: Mapping[str, np.ndarray], percentiles: tuple[float, float] = (0, 100)) -> tuple[Series, ...]:
    """Kernel density estimates of each group (n,), between these percentiles of all values; 0 where all are equal."""
    low, high = np.percentile(np.concatenate(list(groups.values())), percentiles)
    grid = np.linspace(float(low), float(high), GRID_POINTS)
    return tuple(
        Series(label, grid.tolist(), (gaussian_kde(group)(grid) if np.ptp(group) > 0 else 0 * grid).tolist())
        for label, group in groups.items()
    )
