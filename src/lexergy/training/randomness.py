"""The random choices of a training as pure functions of (seed, step): nothing has to be remembered."""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from lexergy.core.random import uniforms

POOLED_BATCHES = 100  # of one size: the more, the more alike the lengths in a batch, and the less of it is chance


class Purpose(IntEnum):
    """What a random number is for; each purpose has a stream of its own."""

    ORDER = 0
    CHOICE = 1
    DROPOUT = 2


def derived_seed(seed: int, purpose: Purpose, *counters: int) -> int:
    """A 64-bit seed for one purpose at one place of the training."""
    return int(np.random.SeedSequence([seed, purpose, *counters]).generate_state(1, np.uint64)[0])


def batch_indices(
    seed: int,
    step: int,
    size: int,
    num_examples: int,
    lengths: Tensor | None = None,  # (N,)
) -> Tensor:
    """The examples of one step (size,): consecutive slices of one shuffled epoch after another.

    With `lengths`, the examples of a batch are of similar length and the batches come in random order.
    """
    positions = torch.arange(step * size, (step + 1) * size)
    epochs = positions // num_examples
    indices = torch.empty_like(positions)
    for epoch in epochs.unique().tolist():
        if lengths is None:
            order = _epoch_order(seed, epoch, num_examples)
        else:
            order = _grouped_order(seed, epoch, size, lengths)
        chosen = epochs == epoch
        indices[chosen] = order[positions[chosen] % num_examples]
    return indices


@lru_cache(maxsize=2)
def _epoch_order(seed: int, epoch: int, num_examples: int) -> Tensor:
    return torch.randperm(num_examples, generator=_order_generator(seed, epoch))


@lru_cache(maxsize=2)
def _grouped_order(seed: int, epoch: int, size: int, lengths: Tensor) -> Tensor:  # (N,) -> (N,)
    """The epoch's order with batches of similar lengths: random pools are sorted and cut, and the cuts shuffled.

    The first batch of an epoch may have begun in the one before; it and the last are as the shuffle left them.
    """
    order = _epoch_order(seed, epoch, len(lengths))
    begun = min(-epoch * len(lengths) % size, len(order))
    whole = (len(order) - begun) // size
    first, middle, last = order.split([begun, whole * size, len(order) - begun - whole * size])
    pools = [pool[lengths[pool].argsort(stable=True)] for pool in middle.split(POOLED_BATCHES * size)]
    shuffled = torch.randperm(whole, generator=_order_generator(seed, epoch, 1))
    batches = torch.cat(pools).view(whole, size)[shuffled] if whole else middle
    return torch.cat([first, batches.flatten(), last])


def _order_generator(seed: int, epoch: int, *counters: int) -> torch.Generator:
    return torch.Generator().manual_seed(derived_seed(seed, Purpose.ORDER, epoch, *counters))


def step_generator(seed: int, step: int) -> torch.Generator:
    """The generator that an objective gets at one step, the same one for every share of the batch."""
    return torch.Generator().manual_seed(derived_seed(seed, Purpose.CHOICE, step))


def example_uniforms(generator: torch.Generator, indices: Tensor, count: int) -> Tensor:
    """Uniform numbers in [0, 1) for each example, float64 (B, count).

    The generator gives one seed; a number then depends on that and on the example's index alone. So an
    example meets the same negative or mask however its batch is shared among processes or accumulated.
    """
    seed = int(torch.randint(2**63 - 1, (), generator=generator))
    return uniforms(seed, indices.tolist(), step=0, first=0, count=count)


@contextmanager
def seeded_dropout(seed: int, device: torch.device, *counters: int) -> Iterator[None]:
    """Dropout masks from (seed, counters); torch's global generators are put back as they were."""
    forked = [] if device.type == "cpu" else [device]
    with torch.random.fork_rng(devices=forked, device_type=None if device.type == "cpu" else device.type):
        torch.manual_seed(derived_seed(seed, Purpose.DROPOUT, *counters))
        yield
