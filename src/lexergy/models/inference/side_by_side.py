"""Parts of a computation side by side, each on one thread.

A layer of a small model is over in a millisecond, and threads that share it wait for each other at its end; threads
with batches of their own do not.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

Part = TypeVar("Part")
Result = TypeVar("Result")


def side_by_side(compute: Callable[[Part], Result], parts: Sequence[Part]) -> list[Result]:
    """`compute` of each part, without gradients, as many at a time as torch has threads; in order if there is but one.

    With fewer parts than threads they share the work of each.
    """
    threads = torch.get_num_threads()
    if threads == 1 or len(parts) < threads or torch.is_grad_enabled():
        return [compute(part) for part in parts]

    def alone(part: Part) -> Result:
        # How many threads there are is known to each thread by itself, and so is that there are no gradients.
        torch.set_num_threads(1)
        with torch.inference_mode() if is_inference else torch.no_grad():
            return compute(part)

    is_inference = torch.is_inference_mode_enabled()
    try:
        with ThreadPoolExecutor(threads) as pool:
            return list(pool.map(alone, parts))
    finally:
        torch.set_num_threads(threads)  # for threads yet to come, too
