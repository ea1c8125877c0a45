"""Locks of a run that has an address: leases, which their holder renews while it lives.

    s3://bucket/run/.locks/folder/00000003    {"owner": ..., "machine": ..., "process": ..., "beat": 12}

Object stores have no locks, but can make an object only where there is none. So leases are numbered: who makes the
next number holds the lock, and only after the last one was given back, or its holder has died. A holder whose lease
was taken over, because it slept too long, publishes nothing more.
"""

import json
import os
import platform
import sys
import threading
import time
import uuid
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import psutil
from filelock import Timeout

from lexergy.errors import LexergyError
from lexergy.storage import LOCKS, Mirror, asking

RENEW_SECONDS = 10.0
DEAD_SECONDS = 60.0  # without a sign of life
LOOK_SECONDS = 1.0


class _Watch:
    """What one sees of a lease by looking at it again and again; clocks of other machines are not believed."""

    def __init__(self) -> None:
        self._seen: tuple[int, dict[str, Any] | None] | None = None
        self._started = self._changed = time.monotonic()
        self._told = False
        self.has_moved = False  # its holder lives

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._started

    def see(self, number: int, content: dict[str, Any] | None) -> None:
        if self._seen is not None and self._seen != (number, content):
            self.has_moved, self._changed = True, time.monotonic()
        self._seen = (number, content)
        self.has_moved = self.has_moved or (content is not None and _is_here(content))

    def is_free(self) -> bool:
        """Whether nobody holds it: given back, or its holder has ended, or shows no sign of life."""
        assert self._seen is not None
        content = self._seen[1]
        if content is None or content.get("released") or is_dead(content):
            return True
        return time.monotonic() - self._changed >= DEAD_SECONDS

    def tell(self, address: str) -> None:
        if self._told or self.has_moved or self._seen is None:
            return
        self._told = True
        machine = (self._seen[1] or {}).get("machine", "another machine")
        line = f"looking whether {machine} is still at work in {address} (at most {DEAD_SECONDS:.0f} s)"
        print(line, file=sys.stderr, flush=True)


class Lease:
    """A lock by name of a folder in a mirror; used as `filelock.FileLock` is."""

    def __init__(self, mirror: Mirror, folder: Path, name: str, timeout: float = -1) -> None:
        self.name = name
        self._mirror = mirror
        self._timeout = timeout
        self._folder = f"{mirror.remote(folder)}/{LOCKS}/{name}"
        self._owner = uuid.uuid4().hex
        self._number = 0
        self._beat = 0
        self._lost = False
        self._ended = threading.Event()
        self._held: ExitStack | None = None

    def acquire(self, timeout: float | None = None, poll_interval: float = LOOK_SECONDS) -> None:
        """Hold the lease; `filelock.Timeout` when its holder is seen to live after so many seconds (-1: wait)."""
        timeout = self._timeout if timeout is None else timeout
        watch = _Watch()
        while True:
            number, content = self._last()
            watch.see(number, content)
            if watch.is_free():
                if self._take(number + 1):
                    return
                continue
            if 0 <= timeout <= watch.seconds and watch.has_moved:
                raise Timeout(f"{self._mirror.address}/{LOCKS}/{self.name}")
            if timeout >= 0:
                watch.tell(self._mirror.address)
            time.sleep(min(poll_interval, LOOK_SECONDS))

    def release(self) -> None:
        """Give the lease back; its number stays, so that nobody else thinks of it as free twice."""
        if self._held is None:
            return
        self._ended.set()
        self._thread.join()
        self._held.close()
        self._held = None
        if not self._lost and self._last()[0] == self._number:
            self._write({"owner": self._owner, "released": True})

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(self, *error: object) -> None:
        self.release()

    def _take(self, number: int) -> bool:
        filesystem = self._mirror.filesystem
        try:
            with asking(self._mirror.address):
                filesystem.makedirs(self._folder, exist_ok=True)
                filesystem.pipe_file(self._path(number), self._content(), mode="create")
        except LexergyError:  # stores have many ways to say that it is there already
            if number not in self._numbers():
                raise
        last, content = self._last()
        if last != number or content is None or content.get("owner") != self._owner:
            return False
        self._number, self._lost = number, False
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._renew, daemon=True)
        self._held = ExitStack()
        self._held.enter_context(self._mirror.guarded(self._still_mine))
        self._thread.start()
        self._remove_older()
        return True

    def _renew(self) -> None:
        renewed = time.monotonic()
        while not self._ended.wait(RENEW_SECONDS):
            try:
                last, content = self._last()
                if last != self._number or content is None or content.get("owner") != self._owner:
                    self._lost = True
                    return
                self._beat += 1
                self._write(json.loads(self._content()))
                renewed = time.monotonic()
            except LexergyError:  # the storage may come back
                self._lost = time.monotonic() - renewed > DEAD_SECONDS / 2
                if self._lost:
                    return

    def _still_mine(self) -> None:
        if self._lost:
            raise LexergyError(
                f"this process has lost its lock on {self._mirror.address}, since it or the connection slept too long; "
                "run the same command again; finished work is kept."
            )

    def _last(self) -> tuple[int, dict[str, Any] | None]:
        """The greatest number and what it says; 0 and None where there is none."""
        with asking(self._mirror.address):
            numbers = self._numbers()
            if not numbers:
                return 0, None
            try:
                content = json.loads(self._mirror.filesystem.cat_file(self._path(max(numbers))))
            except (FileNotFoundError, ValueError):  # just removed, or just being written
                content = {}
            return max(numbers), content

    def _numbers(self) -> list[int]:
        self._mirror.filesystem.invalidate_cache()
        names = (path.rpartition("/")[2] for path in self._mirror.filesystem.find(self._folder))
        return [int(name) for name in names if name.isdigit()]

    def _remove_older(self) -> None:
        with asking(self._mirror.address):
            for number in self._numbers():
                if number < self._number:
                    self._mirror.filesystem.rm_file(self._path(number))

    def _write(self, content: dict[str, Any]) -> None:
        with asking(self._mirror.address):
            self._mirror.filesystem.pipe_file(self._path(self._number), json.dumps(content).encode())

    def _content(self) -> bytes:
        content = {"owner": self._owner, "machine": platform.node(), "here": _here(), "beat": self._beat}
        process = psutil.Process()
        return json.dumps({**content, "process": process.pid, "started": process.create_time()}).encode()

    def _path(self, number: int) -> str:
        return f"{self._folder}/{number:08d}"


def lease_names(mirror: Mirror, folder: Path) -> list[str]:
    """The leases of a folder that were ever taken."""
    with asking(mirror.address):
        mirror.filesystem.invalidate_cache()
        paths = mirror.filesystem.find(f"{mirror.remote(folder)}/{LOCKS}")
    return sorted({path.split("/")[-2] for path in paths})


def is_dead(content: dict[str, Any]) -> bool:
    """Whether the holder was a process of this machine that has ended; false of all others."""
    if not _is_here(content):
        return False
    try:
        return bool(abs(psutil.Process(content["process"]).create_time() - content["started"]) > 1)
    except (psutil.NoSuchProcess, KeyError, TypeError):
        return True


def _is_here(content: dict[str, Any]) -> bool:
    here = _here()
    return here is not None and content.get("here") == here


def _here() -> str | None:
    """This machine since its start, and this room of process numbers on it (a container has its own)."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return None
