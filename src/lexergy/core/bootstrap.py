"""Standard errors by the bootstrap."""

from collections.abc import Callable

import torch
from torch import Tensor

from lexergy.errors import LexergyError


def bootstrap_std_error(
    values: Tensor,  # (B,)
    seed: int,
    *,
    statistic: Callable[[Tensor], Tensor] = lambda resampled: resampled.mean(dim=-1),  # (R, B) -> (R,)
    num_resamples: int = 1000,
) -> float:
    """Standard deviation of a statistic over windows drawn again with replacement (Efron 1979).

    `statistic` reduces the last dimension, all resamples at once. A paired comparison is the bootstrap of the
    differences per window. Windows count as independent. NaN for a single window and for non-finite values.
    """
    if values.ndim != 1 or len(values) == 0:
        raise LexergyError(
            f"values to bootstrap have shape {tuple(values.shape)}; expected one number per window, (B,)."
        )
    if len(values) == 1:
        return float("nan")
    generator = torch.Generator().manual_seed(seed)
    indices = torch.randint(len(values), (num_resamples, len(values)), generator=generator)  # (R, B)
    statistics = statistic(values.detach().double().cpu()[indices])  # (R,)
    return float(statistics.std())
