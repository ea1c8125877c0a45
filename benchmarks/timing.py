"""Seconds of a call."""

import statistics
import time
from collections.abc import Callable


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
