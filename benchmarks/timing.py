"""Seconds of a call, and the machine's own rate to hold them against."""

import statistics
import time
from collections.abc import Callable

import torch


def seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def median_seconds(call: Callable[[], object], repeats: int) -> float:
    call()
    return statistics.median(seconds(call) for _ in range(repeats))


def matrix_product_rate(size: int = 2048, repeats: int = 5) -> float:
    """The machine's fp32 matrix-product rate in FLOP/s: the median of a few."""
    left, right = torch.randn(size, size), torch.randn(size, size)
    return 2 * size**3 / median_seconds(lambda: left @ right, repeats)


def cpu_seconds(call: Callable[[], object]) -> float:
    """Of all threads together: on a machine shared with others the wall says little."""
    start = time.process_time()
    call()
    return time.process_time() - start
