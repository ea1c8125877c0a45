"""Seconds of a call, and how quiet the machine was."""

import os
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path


def seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def median_seconds(call: Callable[[], object], repeats: int) -> float:
    call()
    return statistics.median(seconds(call) for _ in range(repeats))


def cpu_seconds(call: Callable[[], object]) -> float:
    """Of all threads together: on a machine shared with others the wall says little."""
    start = time.process_time()
    call()
    return time.process_time() - start


CLOCKS = {"wall": seconds, "cpu": cpu_seconds}


class Others:
    """What other processes took of the machine since this was made."""

    def __init__(self) -> None:
        self._start, self._idle, self._own = time.perf_counter(), _idle_seconds(), _own_seconds()

    def share(self) -> float:
        available = (time.perf_counter() - self._start) * (os.cpu_count() or 1)
        return max(0.0, 1 - (_idle_seconds() - self._idle + _own_seconds() - self._own) / available)


def _idle_seconds() -> float:
    fields = Path("/proc/stat").read_text().splitlines()[0].split()[1:]
    return (int(fields[3]) + int(fields[4])) / os.sysconf("SC_CLK_TCK")  # idle and waiting for a disk


def _own_seconds() -> float:
    """Of this process and of those that it has waited for."""
    return sum(os.times()[:4])


def with_range(values: Sequence[float], digits: int = 2) -> str:
    """The median over rounds, and from where to where they reach."""
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"
