"""How numbers of the joint model came about in each task: where log Z cancelled, where it was estimated, how well."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from lexergy.core.estimation import importance
from lexergy.models.joint.likelihood import is_doubtful


class Kind(StrEnum):
    CANCELS = "log Z cancels"  # log P_LM - E, among choices of one prefix and one length
    ESTIMATED = "log Z estimated"  # log P_LM - E - T_n
    BOUND = "bound"  # sum over chunks of log P_LM - E - log Z^
    RESAMPLED = "resampled"  # Algorithm 1


@dataclass(frozen=True)
class Treatment:
    """All requests of a task whose numbers came about in one way."""

    task: str
    kind: Kind
    num_requests: int
    num_samples: int  # per estimate, or candidates per text; 0 where none were drawn
    num_estimates: int  # different prefixes and lengths, or texts
    ess: float  # median over these
    pareto_k: float  # median
    num_doubtful: int  # estimates whose weights cannot be trusted

    @property
    def doubt(self) -> str | None:
        """Why the numbers decide nothing, or None. A bound needs no trust in weights."""
        if self.num_doubtful == 0:
            return None
        threshold = importance.pareto_k_threshold(self.num_samples)
        why = (
            f"{self.num_samples} samples are too few to judge their tail"
            if self.num_samples < importance.FEWEST_FOR_PARETO_K
            else f"an effective sample size below {importance.LEAST_ESS} or a k-hat above {threshold:.2f}"
        )
        return f"{self.num_doubtful} of {self.num_estimates} estimates cannot be trusted: {why}; draw more samples"


def treatment(
    task: str, kind: Kind, num_requests: int, num_samples: int = 0, weights: Sequence[tuple[float, float]] = ()
) -> Treatment:
    """From the effective sample size and k-hat of each estimate."""
    trusted = kind is Kind.BOUND
    return Treatment(
        task=task,
        kind=kind,
        num_requests=num_requests,
        num_samples=num_samples,
        num_estimates=len(weights),
        ess=_median([ess for ess, _ in weights]),
        pareto_k=_median([pareto_k for _, pareto_k in weights]),
        num_doubtful=0 if trusted else sum(is_doubtful(*pair, num_samples) for pair in weights),
    )


def _median(values: Sequence[float]) -> float:
    known = [value for value in values if not math.isnan(value)]
    return float(np.median(known)) if known else math.nan
