"""Engines compute shards, in any order: a shard is a pure function of its number, so that all of them give the same.

Where a shard is computed from rows that lie here, `read` gets them by its number: only they go to whoever computes it.

with using_engine(RayEngine()):
    run(recipe, "runs/mine")
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Protocol, TypeAlias

import pyarrow

Compute: TypeAlias = Callable[[Any], pyarrow.Table]  # a shard from its number, or from what was read for it
Read: TypeAlias = Callable[[int], Any]


def number(index: int) -> int:
    """What is read for a shard that needs nothing but its number."""
    return index


class Engine(Protocol):
    """Who computes shards."""

    def tables(
        self, shards: Sequence[int], compute: Compute, read: Read = number
    ) -> Iterator[tuple[int, pyarrow.Table]]:
        """Each shard's number and content, as they get finished; `read` is called in this process."""

    @property
    def workers(self) -> int | None:
        """How many compute at this moment; None for this process alone."""


class InPlace:
    """This process, one shard after the other."""

    workers = None

    def tables(
        self, shards: Sequence[int], compute: Compute, read: Read = number
    ) -> Iterator[tuple[int, pyarrow.Table]]:
        for index in shards:
            yield index, compute(read(index))


_current: ContextVar[Engine | None] = ContextVar("engine", default=None)


@contextmanager
def using_engine(engine: Engine) -> Iterator[None]:
    """Compute all shards with this engine."""
    token = _current.set(engine)
    try:
        yield
    finally:
        _current.reset(token)


def current_engine() -> Engine | None:
    """The engine that the caller said to use."""
    return _current.get()
