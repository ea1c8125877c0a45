"""What one driver spends on a shard, with thousands of shards that cost nothing, and where it stops scaling.

python benchmarks/ray_overhead.py                              # 5,000 shards on 1, 2 and 4 actors
python benchmarks/ray_overhead.py --shards 500 --actors 1 --json

A shard takes: being handed out, the way back, being written by the driver, and a wait over all answers
to come, which grows with the workers. One driver keeps as many workers busy as its time for a shard goes into the time
that a worker takes for it.
"""

import argparse
import json
import os
import tempfile
import time
from collections.abc import Iterable
from functools import partial
from pathlib import Path

os.environ.update({"OMP_NUM_THREADS": "1", "RAY_USAGE_STATS_ENABLED": "0"})

import numpy
import pyarrow
import ray
import torch
from timing import median_seconds

from lexergy.runs.ray_engine import RayEngine
from lexergy.runs.shards import ShardStore

SHARD_SECONDS = (1, 10, 60)
WORKERS = (1, 64, 1024, 4096)
WAITS = 20


def trivial(kilobytes: int, index: int) -> pyarrow.Table:
    return pyarrow.table({"value": numpy.full(max(1, kilobytes * 125), float(index))})


def handed_over(actors: int, shards: int, kilobytes: int) -> tuple[float, float]:
    """Seconds until the first shard, and for each one after it: nothing is written."""
    started, times = time.perf_counter(), []
    for _ in RayEngine(actors, cpus=1, gpus=0).tables(range(shards), partial(trivial, kilobytes)):
        times.append(time.perf_counter())
    return times[0] - started, (times[-1] - times[0]) / (len(times) - 1)


def written(shards: int, kilobytes: int) -> float:
    """Seconds to write a shard and to force it to the disk."""
    tables = [trivial(kilobytes, index) for index in range(shards)]
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        store = ShardStore(folder, {})
        started = time.perf_counter()
        for index, table in enumerate(tables):
            store.write(index, table)
        return (time.perf_counter() - started) / shards


def opened(shards: int) -> float:
    """Seconds to look at a shard that is there: a command that goes on does that for each."""
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        store = ShardStore(folder, {})
        for index in range(shards):
            store.write(index, trivial(0, index))
        started = time.perf_counter()
        store.missing(shards)
        return (time.perf_counter() - started) / shards


def waited(workers: Iterable[int]) -> dict[int, float]:
    """Seconds that `ray.wait` takes when one of so many answers is there."""

    @ray.remote(num_cpus=0, resources={"nobody has this": 1})
    def never() -> None: ...

    times, pending = {}, []
    there = ray.put(None)
    for number in workers:
        pending += [never.remote() for _ in range(number - 1 - len(pending))]
        times[number] = median_seconds(partial(ray.wait, [*pending, there], num_returns=1), WAITS)
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shards", type=int, default=5000)
    parser.add_argument("--actors", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--kilobytes", type=int, default=100, help="that a shard holds")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(1)
    ray.init("local", num_cpus=max(options.actors), include_dashboard=False, log_to_driver=False, logging_level="error")
    handed = {number: handed_over(number, options.shards, options.kilobytes) for number in options.actors}
    result = {
        "shards": options.shards,
        "kilobytes": options.kilobytes,
        "start_seconds": {number: first for number, (first, _) in handed.items()},
        "hand_over_seconds": {number: each for number, (_, each) in handed.items()},
        "write_seconds": written(min(options.shards, 1000), options.kilobytes),
        "look_seconds": opened(min(options.shards, 1000)),
        "wait_seconds": waited(WORKERS),
    }
    print(json.dumps(result, indent=2) if options.json else "\n".join(lines(result)))


def lines(result: dict) -> Iterable[str]:
    yield f"{result['shards']} shards of {result['kilobytes']} kB"
    for number, seconds in result["hand_over_seconds"].items():
        start = result["start_seconds"][number]
        yield f"{number} actors: first shard after {start:.1f} s, then {seconds * 1e3:.2f} ms a shard"
    yield f"writing a shard: {result['write_seconds'] * 1e3:.2f} ms; looking at one that is there: "
    yield f"  {result['look_seconds'] * 1e3:.2f} ms"
    alone = min(result["hand_over_seconds"].values()) + result["write_seconds"]
    yield "workers  wait (ms)  driver's time a shard (ms)  most shards a second"
    for workers, wait in result["wait_seconds"].items():
        yield f"{workers:7d}  {wait * 1e3:9.2f}  {(alone + wait) * 1e3:26.2f}  {1 / (alone + wait):20.0f}"
    for seconds in SHARD_SECONDS:
        yield f"shards of {seconds} s: one driver keeps about {busy(result, alone, seconds)} workers busy"


def busy(result: dict, alone: float, seconds: float) -> int:
    """The most workers w with w * (alone + wait(w)) <= seconds; waits between those measured lie on a line."""
    numbers, waits = zip(*result["wait_seconds"].items(), strict=True)
    workers = numpy.arange(1, 100_001)
    slope = (waits[-1] - waits[0]) / (numbers[-1] - numbers[0])
    return int((workers * (alone + waits[0] + slope * workers) <= seconds).sum())


if __name__ == "__main__":
    main()
