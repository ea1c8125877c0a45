"""Random initial weights from a seed."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def initialised_from(seed: int) -> Iterator[None]:
    """Modules draw initial weights from torch's global generator: seeded here, and put back afterwards."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        yield
