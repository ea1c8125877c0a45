"""Engines compute shards, in any order: a shard is a pure function of its number, so that all of them give the same.

with using_engine(RayEngine()):
    run(recipe, "runs/mine")
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol, TypeAlias

import pyarrow

Compute: TypeAlias = Callable[[int], pyarrow.Table]  # a shard from its number


class Engine(Protocol):
    """Who computes shards."""

    def tables(self, shards: Sequence[int], compute: Compute) -> Iterator[tuple[int, pyarrow.Table]]:
        """Each shard's number and content, as they get finished."""

    @property
    def workers(self) -> int | None:
        """How many compute at this moment; None for this process alone."""


class InPlace:
    """This process, one shard after the other."""

    workers = None

    def tables(self, shards: Sequence[int], compute: Compute) -> Iterator[tuple[int, pyarrow.Table]]:
        for index in shards:
            yield index, compute(index)


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
