"""Part i of n of a command's shards, for job arrays and plain shells: the parts meet in the run's folder.

    lexergy run mine.yaml --part 1/4      beside 2/4, 3/4 and 4/4, on any machines that see the folder
    lexergy run mine.yaml                 when they have ended: the rest

A part computes those of a stage's missing shards whose number is i - 1 modulo n, whatever becomes of the others, and
ends. What cannot be divided, such as a training, the first to come does while the others wait.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol

from lexergy.errors import LexergyError


class Releasable(Protocol):
    """A lock that is held."""

    def release(self) -> None: ...


class PartDone(Exception):
    """A part has computed its share of some shards: the command ends here, without its result."""


class Part:
    """Part `number` of `of`, counted from 1."""

    def __init__(self, number: int, of: int) -> None:
        if not 1 <= number <= of:
            raise LexergyError(f"`--part` is {number}/{of}; expected 1/{max(1, of)} to {max(1, of)}/{max(1, of)}.")
        self.number = number
        self.of = of
        self._turns: list[Releasable] = []

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"

    def share(self, shards: Sequence[int]) -> list[int]:
        """This part's own among the shards; it does not depend on which of them are missing."""
        return [index for index in shards if index % self.of == self.number - 1]

    @contextmanager
    def turn(self, lock: Releasable) -> Iterator[None]:
        """Be the one who does what cannot be divided, until `end_turns`."""
        self._turns.append(lock)
        try:
            yield
        finally:
            self.end_turns()

    def end_turns(self) -> None:
        """Let the other parts come as far as this one."""
        while self._turns:
            self._turns.pop().release()

    def done(self, label: str, own: int, missing: int, total: int) -> PartDone:
        """What a part says at its end: how many shards were its own, and how many of all are missing still."""
        left = (
            f"{missing} are missing still; run without --part when all parts are done"
            if missing
            else "all are there; run without --part to finish, or start the parts again to share what comes next too"
        )
        return PartDone(f"{label}: part {self} done: {own} of {total} shards; {left}")


def read_part(text: str) -> Part:
    """`2/4` is the second of four."""
    match = re.fullmatch(r"([0-9]{1,6})/([0-9]{1,6})", text.strip())
    if match is None:
        raise LexergyError(f"`--part` is {text[:40]}; expected which part of how many, as in 1/4.")
    return Part(int(match[1]), int(match[2]))


_current: ContextVar[Part | None] = ContextVar("part", default=None)


@contextmanager
def doing_part(part: Part) -> Iterator[None]:
    """Compute only this part's share of shards; what fills some ends with `PartDone`."""
    token = _current.set(part)
    try:
        yield
    finally:
        _current.reset(token)


def current_part() -> Part | None:
    """The part that is being done, None for all."""
    return _current.get()
