"""A run in several processes, as `accelerate launch` and `torchrun` start them: they meet in the run folder.

The first process writes the run; the others train with it and otherwise wait for its files. Waiting on files has
no time limit, where a barrier of torch gives up after minutes and a stage may take a day.
"""

import os
import time
from collections.abc import Callable
from pathlib import Path

from lexergy.storage import mirror_of, refresh

POLL_SECONDS = 0.5
POLL_SECONDS_ELSEWHERE = 5.0


def is_main_process() -> bool:
    """Whether this is the first, or the only, process."""
    return os.environ.get("RANK", "0") == "0"


def meet() -> None:
    """Go on when all processes are here, which must be soon; `wait_until` is for what takes long."""
    if "RANK" in os.environ:
        # Imported here: a run in one process needs none of it.
        from accelerate import PartialState
        from accelerate.utils import parse_flag_from_env

        # transformers would load nothing but the first process's weights, of any model; all processes need theirs.
        os.environ["FSDP_CPU_RAM_EFFICIENT_LOADING"] = "false"
        # Accelerate keeps its first state: it must be the one that the training will ask for.
        PartialState(cpu=parse_flag_from_env("ACCELERATE_USE_CPU")).wait_for_everyone()


def wait_until(happened: Callable[[], bool], path: Path) -> None:
    """Look at a path again and again. When the first process fails, the launcher ends those that wait for it."""
    while not happened():
        time.sleep(POLL_SECONDS if mirror_of(path) is None else POLL_SECONDS_ELSEWHERE)
        refresh(path)
