"""Exact joint models over 7 tokens and sequences of 4, and what enumeration says of them."""

import torch
from torch import Tensor

from lexergy.models.joint.model import ResidualEBM
from lexergy.testing import (
    TableEnergy,
    joint_log_prob,
)

PREFIXES = torch.tensor([[1], [3], [5]])
MANY_ROWS = 8192  # the models are tiny: few large batches are fastest
WINDOWS = torch.tensor([[1, 1, 3, 0], [3, 1, 2, 4], [5, 0, 6, 2]])


def table(joint: ResidualEBM) -> TableEnergy:
    return joint.energy.function


def random_energy(scale: float, power: int):
    """scale * u^power with u uniform, whatever the text: -40 u^8 gives weights of a very heavy tail."""
    generator = torch.Generator().manual_seed(0)
    return lambda tokens: scale * torch.rand(len(tokens), generator=generator) ** power


def index(continuation: Tensor | tuple[int, ...]) -> int:
    return sum(int(token) * 7**place for place, token in enumerate(reversed([*continuation])))


def exact_window_log_prob(joint: ResidualEBM, window: Tensor) -> float:
    distribution = joint_log_prob(joint.lm, table(joint), window[:1], 3)
    return float(distribution[index(window[1:])])
