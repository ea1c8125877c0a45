"""Who may write a run's folder: one process, or several that each do a part of its shards.

A part holds a lock of its own as long as it lives, and the folder's lock while it does what cannot be divided. The
locks of a folder are files, those of a run at an address are leases.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

from filelock import FileLock, Timeout

from lexergy.errors import LexergyError
from lexergy.runs.leases import Lease, lease_names
from lexergy.runs.parts import Part, current_part
from lexergy.storage import addressed, mirror_of

LOCK = ".lock"
PART_LOCKS = ".part-*.lock"
POLL_SECONDS = 0.5
SECONDS_TO_LOOK = 2  # at another's lock, to see whether it is held

Lock: TypeAlias = FileLock | Lease


@contextmanager
def locked(folder: Path, *, progress: bool) -> Iterator[bool]:
    """Hold the lock of a folder, which is made; gives whether no other process is at work in it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise LexergyError(
            f"{addressed(folder)} is a file; expected a folder for the run, new or of an earlier run."
        ) from None
    part = current_part()
    with _whole(folder) if part is None else _shared(folder, part, progress) as alone:
        yield alone


@contextmanager
def _whole(folder: Path) -> Iterator[bool]:
    lock = _lock(folder, LOCK, timeout=0)
    try:
        lock.acquire()
    except Timeout:
        raise LexergyError(
            f"another process is writing the run {addressed(folder)}; wait until it has finished, or choose another "
            "folder."
        ) from None
    try:
        busy = [name for name in _part_locks(folder) if not _removed(folder, name)]
        if busy:
            raise LexergyError(
                f"{len(busy)} of the parts of the run {addressed(folder)} are at work; wait until they are done, or "
                "choose another folder."
            )
        yield True
    finally:
        lock.release()


@contextmanager
def _shared(folder: Path, part: Part, progress: bool) -> Iterator[bool]:
    if "RANK" in os.environ:
        raise LexergyError(
            f"part {part} was asked for in one of several processes that train together; expected one process; "
            "start it without `accelerate launch` or `torchrun`."
        )
    name = PART_LOCKS.replace("*", f"{part.number}-of-{part.of}")
    own = _lock(folder, name, timeout=SECONDS_TO_LOOK)
    try:
        own.acquire()
    except Timeout:
        raise LexergyError(
            f"another process does part {part} of the run {addressed(folder)}; wait until it is done."
        ) from None
    try:
        lock = _lock(folder, LOCK)
        _wait(lock, part, progress)
        with part.turn(lock):
            yield not any(_is_held(folder, held) for held in _part_locks(folder) if held != name)
    finally:
        own.release()


def _lock(folder: Path, name: str, timeout: float = -1) -> Lock:
    mirror = mirror_of(folder)
    return FileLock(folder / name, timeout=timeout) if mirror is None else Lease(mirror, folder, name, timeout)


def _part_locks(folder: Path) -> list[str]:
    mirror = mirror_of(folder)
    names = [path.name for path in folder.glob(PART_LOCKS)] if mirror is None else lease_names(mirror, folder)
    return [name for name in names if name != LOCK]


def _wait(lock: Lock, part: Part, progress: bool) -> None:
    try:
        lock.acquire(timeout=0)
    except Timeout:
        if progress:
            print(f"part {part}: waiting for what cannot be divided", file=sys.stderr, flush=True)
        lock.acquire(poll_interval=POLL_SECONDS)


def _is_held(folder: Path, name: str) -> bool:
    try:
        with _lock(folder, name, timeout=0):
            return False
    except Timeout:
        return True


def _removed(folder: Path, name: str) -> bool:
    """Remove the lock of a part that has ended; false while somebody holds it."""
    try:
        with _lock(folder, name, timeout=0):
            (folder / name).unlink(missing_ok=True)
            return True
    except Timeout:
        return False
