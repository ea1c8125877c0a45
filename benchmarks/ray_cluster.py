"""The negatives and perplexity of the quickstart on a Ray cluster of three nodes, whose workers and nodes are killed.

python benchmarks/ray_cluster.py                                        # all of it, ten times a worker and a node
python benchmarks/ray_cluster.py --prefixes 26 --rows-per-shard 4 --trials 2

One process makes the run, once; it is kept. Then its negatives and its perplexity are made again on the cluster: first
undisturbed, then with one worker and after it one node killed at random moments. The run's files must be the same, bit
for bit, and each shard must have been handed over once.
"""

import argparse
import os
import random
import shutil
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

os.environ.update({"OMP_NUM_THREADS": "1", "RAY_USAGE_STATS_ENABLED": "0", "HF_HUB_OFFLINE": "1"})

import psutil
import pyarrow
import ray
import torch
from ray.cluster_utils import Cluster

from lexergy.recipes.loader import load_recipe
from lexergy.recipes.residual import ResidualRecipe
from lexergy.runs.engines import Compute, Read, number, using_engine
from lexergy.runs.ray_engine import RayEngine
from lexergy.tasks.residual import evaluate, negatives
from lexergy.tasks.residual.run import run

STAGES = ("negatives", "perplexity")
NODE = {"num_cpus": 1, "object_store_memory": 1_500_000_000}


class Counted(RayEngine):
    """Ray, and how often each shard of each stage was handed over."""

    def __init__(self) -> None:
        super().__init__(actors=3, cpus=1, gpus=0)
        self.handed: list[Counter[int]] = []
        self.wanted: list[Counter[int]] = []

    def tables(
        self, shards: Sequence[int], compute: Compute, read: Read = number
    ) -> Iterator[tuple[int, pyarrow.Table]]:
        self.wanted.append(Counter(shards))
        self.handed.append(Counter())
        for index, table in super().tables(shards, compute, read):
            self.handed[-1][index] += 1
            yield index, table


class Killer(threading.Thread):
    """Kills a worker and later a node, at moments that were drawn before."""

    def __init__(self, cluster: Cluster, chosen: random.Random, seconds: float) -> None:
        super().__init__(daemon=True)
        self.cluster = cluster
        self.chosen = chosen
        self.moments = sorted(chosen.uniform(0, seconds) for _ in range(2))
        self.done: list[str] = []
        self.over = threading.Event()

    def run(self) -> None:
        started = time.monotonic()
        for kill, moment in zip((self._kill_worker, self._kill_node), self.moments, strict=True):
            if self.over.wait(max(0.0, started + moment - time.monotonic())):
                return
            while not (killed := kill()):  # nobody works at this moment: the next who does
                if self.over.wait(0.2):
                    return
            self.done.append(f"{killed} at {time.monotonic() - started:.1f} s")

    def _kill_worker(self) -> str:
        workers = actors_of(psutil.Process())
        if not workers:
            return ""
        victim = self.chosen.choice(workers)
        victim.kill()
        return f"worker {victim.pid}"

    def _kill_node(self) -> str:
        nodes = [node for node in self.cluster.list_all_nodes() if not node.head]
        victim = self.chosen.choice(nodes)
        raylet = psutil.Process(victim.all_processes["raylet"][0].process.pid)
        if not actors_of(raylet):
            return ""
        self.cluster.remove_node(victim, allow_graceful=False)
        return f"node with raylet {raylet.pid}"


def actors_of(process: psutil.Process) -> list[psutil.Process]:
    """Lexergy's actors below a process, in the order of their numbers."""
    below = sorted(process.children(recursive=True), key=lambda child: child.pid)
    return [child for child in below if _command(child).startswith("ray::_Worker")]


def _command(process: psutil.Process) -> str:
    try:
        return "".join(process.cmdline()[:1])
    except psutil.Error:
        return ""


def smaller(prefixes: int) -> ResidualRecipe:
    """The recipe with so many training prefixes, and of the others in proportion."""
    plain = load_recipe("quickstart", ResidualRecipe).plain()
    windows = plain["windows"]
    share = prefixes / windows["train"]
    for split in ("train", "validation", "test"):
        windows[split] = max(8, round(windows[split] * share))
    return ResidualRecipe.model_validate(plain | {"generation": None})


def contents(folder: Path) -> dict[str, bytes]:
    """All that the two stages hold but for their manifests, which say how long they took."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for stage in STAGES
        for path in sorted((folder / stage).rglob("*"))
        if path.is_file() and path.name != "stage.json"
    }


def trial(recipe: ResidualRecipe, reference: Path, folder: Path, killer: Killer | None) -> tuple[float, list[int]]:
    """Make both stages again on the cluster; how long it took, and how many shards each stage has."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(reference, folder)
    for stage in STAGES:
        shutil.rmtree(folder / stage)
    engine, started = Counted(), time.monotonic()
    if killer is not None:
        killer.start()
    with using_engine(engine):
        run(recipe, folder, progress=False)
    seconds = time.monotonic() - started
    if killer is not None:
        killer.over.set()
        killer.join()
    if engine.handed != engine.wanted:
        raise SystemExit(f"shards were lost or doubled: {engine.handed} instead of {engine.wanted}")
    whole, made = contents(reference), contents(folder)
    wrong = sorted(name for name in whole.keys() | made.keys() if whole.get(name) != made.get(name))
    if wrong:
        raise SystemExit(f"these files differ: {', '.join(wrong)}")
    return seconds, [len(stage) for stage in engine.wanted]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0, help="of the moments and of who is killed")
    parser.add_argument(
        "--trials",
        type=int,
        default=10,
        help="a worker and a node are killed in each; one that ends before does not count",
    )
    parser.add_argument("--prefixes", type=int, default=520, help="of training; the recipe has 520")
    parser.add_argument("--rows-per-shard", type=int, default=128, help="fewer make more shards of a small trial")
    parser.add_argument("--folder", type=Path, default=Path("runs/ray-cluster"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    negatives.ROWS_PER_SHARD = evaluate.ROWS_PER_BATCH = options.rows_per_shard
    recipe, chosen = smaller(options.prefixes), random.Random(options.seed)
    name = f"{options.prefixes}-prefixes-{options.rows_per_shard}-rows"
    reference, folder = options.folder / name, options.folder / f"{name}-cluster"
    run(recipe, reference)
    cluster = Cluster(initialize_head=True, head_node_args={**NODE, "include_dashboard": False})
    try:
        for _ in range(2):
            cluster.add_node(**NODE)
        ray.init(address=cluster.address, log_to_driver=False, logging_level="error")
        seconds, shards = trial(recipe, reference, folder, None)
        print(f"undisturbed: {shards} shards in {seconds:.0f} s, the same bit for bit", flush=True)
        _kill(options.trials, cluster, chosen, seconds, (recipe, reference, folder))
    finally:
        ray.shutdown()
        cluster.shutdown()


def _kill(trials: int, cluster: Cluster, chosen: random.Random, seconds: float, work: tuple[Any, Path, Path]) -> None:
    kills: Counter[str] = Counter()
    while kills["node"] < trials:
        killer = Killer(cluster, chosen, seconds)
        lasted, _ = trial(*work, killer)
        seconds = min(seconds, lasted)  # a machine that has become quiet is done before many of the moments
        kills.update(done.split()[0] for done in killer.done)
        print(f"{'; '.join(killer.done) or 'nobody'}; {lasted:.0f} s, the same bit for bit", flush=True)
        while len(cluster.list_all_nodes()) < 3:
            cluster.add_node(**NODE)
    counted = " and ".join(f"{count} {name}s" for name, count in sorted(kills.items()))
    print(f"{counted} killed: no shard lost, none doubled, all files the same")


if __name__ == "__main__":
    main()
