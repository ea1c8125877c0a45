"""Shards on a Ray cluster: actors hold the models and compute, this process alone writes.

What a shard is computed with is sent to the actors once, and they need no files of the run. A shard whose worker or
node dies is computed again by the next actor that is free, and a new actor takes the place of the dead one as soon as
the cluster has room for it.
"""

import os
import pickle
import signal
import threading
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow
import torch

from lexergy.errors import LexergyError
from lexergy.files import first_line
from lexergy.runs.engines import Compute, Read, number
from lexergy.runs.transport import from_bytes, to_bytes

MOST_DEATHS = 5  # of workers over one shard, or in a row before they were ready: then it is not chance
QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0"}


class RayEngine:
    """`actors` None: as many as the cluster has room for at the beginning of each stage.

    An actor computes with as many threads as this process would, and by default reserves as many CPUs, and a GPU where
    this process has one: the numbers are then this process's own to the last bit.
    """

    def __init__(self, actors: int | None = None, cpus: float | None = None, gpus: float | None = None) -> None:
        self._ray = _import_ray()
        self.actors = actors
        self.cpus = torch.get_num_threads() if cpus is None else cpus
        self.gpus = int(torch.cuda.is_available()) if gpus is None else gpus
        self._workers = 0

    @property
    def workers(self) -> int:
        """Actors that compute a shard at this moment."""
        return self._workers

    def tables(
        self, shards: Sequence[int], compute: Compute, read: Read = number
    ) -> Iterator[tuple[int, pyarrow.Table]]:
        if not shards:
            return
        _connect(self._ray)
        crew = _Crew(self._ray, self._send(compute), self.cpus, self.gpus)
        try:
            for _ in range(min(len(shards), self.actors or self._room())):
                crew.hire()
            for index, table in crew.work(deque(shards), read):
                self._workers = len(crew.running)
                yield index, table
        finally:
            crew.dismiss()
            self._workers = 0

    def _send(self, compute: Compute) -> Any:
        try:
            return self._ray.put(to_bytes(compute, self._ray.cloudpickle.CloudPickler))
        except (TypeError, AttributeError, pickle.PicklingError) as error:
            raise LexergyError(
                f"what these shards are computed with cannot be sent to Ray's workers ({first_line(error)}); compute "
                "them without `--engine ray`, if need be in parts (`--part`)."
            ) from error

    def _room(self) -> int:
        """How many actors fit into the cluster as it is."""
        nodes = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        wanted = {name: number for name, number in (("CPU", self.cpus), ("GPU", self.gpus)) if number > 0}
        if not wanted:
            return len(nodes)
        room = sum(min(int(node.get(name, 0) // number) for name, number in wanted.items()) for node in nodes)
        if room < 1:
            raise LexergyError(
                f"no node of the Ray cluster has {self.cpus:g} CPUs and {self.gpus:g} GPUs for an actor; ask for less, "
                "as in `--engine ray:cpus=1,gpus=0`, or with `--threads`."
            )
        return room


class _Crew:
    """Actors that get ready, and those that compute; only the latter have shards, so that none waits for a machine."""

    def __init__(self, ray: Any, compute: Any, cpus: float, gpus: float) -> None:
        self.ray = ray
        self.compute = compute
        self.actor = ray.remote(num_cpus=cpus, num_gpus=gpus, max_restarts=0)(_Worker)
        self.starting: dict[Any, Any] = {}  # the answer to come -> actor
        self.running: dict[Any, tuple[Any, int]] = {}  # the shard to come -> actor and number
        self.idle: list[Any] = []
        self.deaths: Counter[int | None] = Counter()  # by shard; None: before they were ready, in a row

    def hire(self) -> None:
        actor = self.actor.remote(self.compute, torch.get_num_threads())
        self.starting[actor.ready.remote()] = actor

    def work(self, waiting: deque[int], read: Read = number) -> Iterator[tuple[int, pyarrow.Table]]:
        """Until all shards are computed; `waiting` are those that nobody has begun."""
        while waiting or self.running:
            self._give(waiting, read)
            (answer,), _ = self.ray.wait([*self.running, *self.starting], num_returns=1)
            index: int | None = None
            if answer in self.starting:
                actor = self.starting.pop(answer)
            else:
                actor, index = self.running.pop(answer)
            try:
                table = self.ray.get(answer)
            except self.ray.exceptions.RayTaskError as error:
                raise error.cause from error
            except self.ray.exceptions.RayError as error:  # the worker, its node or what it answered is gone
                self._count(index, error)
                if index is not None:
                    waiting.appendleft(index)
                self.ray.kill(actor)
                self.hire()
                continue
            self.deaths[None] = 0
            self.idle.append(actor)
            self._give(waiting, read)  # before the shard is written: nobody waits for the disk
            if index is not None:
                yield index, table

    def _give(self, waiting: deque[int], read: Read) -> None:
        while self.idle and waiting:
            actor, index = self.idle.pop(), waiting.popleft()
            self.running[actor.shard.remote(read(index))] = actor, index

    def _count(self, index: int | None, error: Exception) -> None:
        self.deaths[index] += 1
        if self.deaths[index] >= MOST_DEATHS:
            where = "before they were ready" if index is None else f"while they computed shard {index}"
            raise LexergyError(
                f"{MOST_DEATHS} of Ray's workers died {where} ({first_line(error)}); see Ray's logs; if they had too "
                "little memory, ask for fewer actors, as in `--engine ray:actors=1`."
            ) from error

    def dismiss(self) -> None:
        for actor in [*self.starting.values(), *(actor for actor, _ in self.running.values()), *self.idle]:
            self.ray.kill(actor)


class _Worker:
    """What an actor is: the models, in `compute`, and as many threads as the process that asks has."""

    def __init__(self, compute: bytes, threads: int) -> None:
        torch.set_num_threads(threads)
        self._compute: Compute = from_bytes(compute)

    def ready(self) -> None:
        return None

    def shard(self, read: Any) -> pyarrow.Table:
        return self._compute(read)


def _import_ray() -> Any:
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    try:
        import ray
        import ray.cloudpickle
        import ray.exceptions
    except ImportError:
        raise LexergyError("the engine `ray` needs Ray; run `pip install 'lexergy[ray]'`.") from None
    return ray


def _connect(ray: Any) -> None:
    """To the cluster at RAY_ADDRESS, or to a new one on this machine."""
    if ray.is_initialized():
        return
    in_main = threading.current_thread() is threading.main_thread()
    on_sigterm = signal.getsignal(signal.SIGTERM)
    try:
        ray.init(log_to_driver=False, logging_level="error")
    except Exception as error:  # Ray raises whatever comes, `Exception` itself when it starts too slowly
        address = os.environ.get("RAY_ADDRESS")
        raise LexergyError(
            f"no Ray cluster at RAY_ADDRESS={address} ({first_line(error)}); start one with `ray start --head`, or "
            "unset it to use this machine."
            if address
            else f"Ray does not start on this machine ({first_line(error)}); try again when it is less busy."
        ) from error
    if in_main:
        signal.signal(signal.SIGTERM, on_sigterm)  # Ray's own says nothing to the person who waits
