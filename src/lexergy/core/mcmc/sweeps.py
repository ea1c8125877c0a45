"""Sweeps over the positions of many chains: which block is next, how large, how cold; and the chains' walk itself."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

import torch
from torch import Tensor

from lexergy.core.mcmc.metropolis import ChainState, Transition
from lexergy.core.random import uniforms
from lexergy.errors import LexergyError

COLDEST = 0.02  # where a target that is cooled linearly stops
_STEPS_PER_SWEEP = 2**20  # addresses of random numbers that a sweep may use

Order: TypeAlias = Literal["random", "sequential"]
Step: TypeAlias = Callable[[ChainState, Tensor, Tensor, float], tuple[ChainState, Transition]]
"""State, block (C, L) bool, uniforms (C, 1 + L), temperature of the target -> state and what happened."""


@dataclass(frozen=True)
class Schedule:
    """What changes from sweep to sweep; a sweep visits each free position of a chain once (an epoch, Section 6.4).

    The block size goes linearly from `block_size` to `last_block_size` (None: it stays; 6.7.3 ends at 1). The
    target's temperature starts at 1 and falls by `cooling` per sweep (6.8: 0.02, 0.04, 0.06), down to 0.02.
    """

    sweeps: int
    order: Order = "random"
    block_size: int = 1
    last_block_size: int | None = None
    cooling: float = 0.0

    def __post_init__(self) -> None:
        for name in ("sweeps", "block_size", "last_block_size"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise LexergyError(f"`{name}` is {value}; expected at least 1.")
        if not 0 <= self.cooling < 1:
            raise LexergyError(f"`cooling` is {self.cooling}; expected at least 0, the target as it is, and below 1.")

    def block_size_at(self, sweep: int) -> int:
        last = self.block_size if self.last_block_size is None else self.last_block_size
        done = sweep / max(self.sweeps - 1, 1)
        return round(self.block_size + (last - self.block_size) * done)

    def temperature_at(self, sweep: int) -> float:
        return max(1 - self.cooling * sweep, min(COLDEST, 1.0))


class Sweep(NamedTuple):
    """The chains after one sweep, and how many of its proposals went which way."""

    state: ChainState
    proposed: Tensor  # (C,)
    accepted: Tensor  # (C,)
    novel: Tensor  # (C,)


def sweep_blocks(free: Tensor, keys: Tensor, block_size: int) -> Iterator[Tensor]:
    """The free positions (C, L) by increasing key, `block_size` of each chain at a time: blocks (C, L) bool.

    Each free position comes up once, whatever the tokens are. Chains with fewer positions get empty blocks at last.
    """
    ranks = keys.masked_fill(~free, torch.inf).argsort(dim=1, stable=True).argsort(dim=1)
    for first in range(0, int(free.sum(dim=1).max()), block_size):
        yield free & (ranks >= first) & (ranks < first + block_size)


def run_chains(
    state: ChainState,
    free: Tensor,  # (C, L) bool: the positions that may change
    schedule: Schedule,
    step: Step,
    *,
    seed: int,
    chain_ids: Sequence[int] | None = None,
) -> Iterator[Sweep]:
    """Walk all chains together and yield them after each sweep.

    The random numbers of a chain depend on (seed, chain id, sweep, block, position) alone, so that which chains run
    beside it changes nothing.
    """
    num_chains, length = free.shape
    streams = range(num_chains) if chain_ids is None else chain_ids
    for sweep in range(schedule.sweeps):
        address = sweep * _STEPS_PER_SWEEP
        if schedule.order == "random":
            keys = uniforms(seed, streams, address, 0, length)
        else:
            keys = torch.arange(length, dtype=torch.double).expand(num_chains, -1)
        counts = torch.zeros(3, num_chains, dtype=torch.long)
        blocks = sweep_blocks(free, keys.to(free.device), schedule.block_size_at(sweep))
        for number, block in enumerate(blocks, start=1):
            numbers = uniforms(seed, streams, address + number, 0, 1 + length)
            state, done = step(state, block, numbers, schedule.temperature_at(sweep))
            counts += torch.stack([done.proposed, done.accepted, done.novel]).cpu()
        yield Sweep(state, *counts)
