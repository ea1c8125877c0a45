"""How often are people accused? p-values and thresholds that hold for any score, from texts that people wrote.

Split conformal prediction (Vovk et al. 2005; Angelopoulos and Bates 2023): if a new text of a person and n texts of
people to calibrate on are exchangeable, the rank of its score among theirs is uniform, whatever the score is worth.
Higher scores are more a machine's.
"""

import math
from collections.abc import Hashable, Sequence

import torch
from torch import Tensor

from lexergy.errors import LexergyError

_ROUNDING = 1e-9  # .05 times 20 is 1, whatever the rounding
LENGTHS = tuple(2**exponent for exponent in range(4, 20))  # tokens: the edges of length bins


def conformal_p_values(scores: Tensor, calibration: Tensor) -> Tensor:  # (M,), (n,) -> (M,)
    """p = (1 + #{calibration scores >= s}) / (n + 1): for a text of a person, P(p <= alpha) <= alpha."""
    ascending = calibration.double().sort().values
    below = torch.searchsorted(ascending, scores.double(), side="left")
    return (1 + len(ascending) - below).double() / (len(ascending) + 1)


def conformal_threshold(calibration: Tensor, level: float) -> float:  # (n,)
    """The score above which p <= level: the k-th largest of n, k = floor(level (n + 1))."""
    check_level(level, len(calibration))
    largest = math.floor(level * (len(calibration) + 1) + _ROUNDING)
    return float(calibration.double().sort(descending=True).values[min(largest, len(calibration)) - 1])


def texts_needed(level: float) -> int:
    """The fewest calibration texts from which somebody can be accused at this level: 1 / (n + 1) <= level."""
    return math.ceil(1 / level - _ROUNDING) - 1


def check_level(level: float, num_texts: int) -> None:
    """Refuse a rate of false positives that so many texts cannot support."""
    if not 0 < level < 1:
        raise LexergyError(f"the rate of false positives is {level:g}; expected more than 0 and less than 1.")
    if num_texts < texts_needed(level):
        raise LexergyError(
            f"{num_texts} texts of people to calibrate on support no rate of false positives below "
            f"1/{num_texts + 1} = {1 / (num_texts + 1):.3g}; {level:g} needs at least {texts_needed(level)}; give more "
            "texts of people, or a higher rate."
        )


def benjamini_hochberg(p_values: Tensor) -> Tensor:  # (M,) -> (M,)
    """Adjusted p-values q_(i) = min over j >= i of M p_(j) / j (Benjamini and Hochberg 1995).

    If the texts with q <= alpha are accused, at most the share alpha of them is people's, in expectation. This holds
    for conformal p-values though they share their calibration texts (Bates et al. 2023, Theorem 2).
    """
    ascending, order = p_values.double().sort()
    places = torch.arange(1, len(ascending) + 1, dtype=torch.double)
    least = (ascending * len(ascending) / places).flip(0).cummin(0).values.flip(0) if len(ascending) else ascending
    return torch.empty_like(least).scatter_(0, order, least.clamp_max(1.0))


def length_bins(tokens: Sequence[int], least: int) -> list[int]:
    """Lower edges of bins of lengths that each hold at least so many of the texts, the first 0.

    Edges are powers of two, so that they do not depend on the texts but for which are left out.
    """
    edges: list[int] = []
    start = 0
    for edge in (*LENGTHS, math.inf):
        if sum(start <= count < edge for count in tokens) >= least:
            edges.append(start)
            start = int(edge) if edge != math.inf else start
    return edges or [0]


def bin_of(tokens: int, edges: Sequence[int]) -> int:
    """The edge at or below a length; of a shorter text the first."""
    return max((edge for edge in edges if edge <= tokens), default=edges[0])


def mondrian_p_values(
    scores: Tensor,  # (M,)
    categories: Sequence[Hashable],  # M
    calibration: Tensor,  # (n,)
    calibration_categories: Sequence[Hashable],  # n
) -> Tensor:
    """p-values (M,) among the calibration texts of a text's own category (Vovk et al. 2005, Sec. 4.5).

    P(p <= alpha) <= alpha then holds within each category, not only on average over all of them.
    """
    p_values = torch.empty(len(scores), dtype=torch.double)
    for category in dict.fromkeys(categories):
        own = torch.tensor([value == category for value in categories])
        alike = torch.tensor([value == category for value in calibration_categories], dtype=torch.bool)
        p_values[own] = conformal_p_values(scores[own], calibration[alike])
    return p_values
