"""A folder in which long work happens: one lock, stages, a seed for each of them, and progress.

Every long command opens one. A finished stage is only read, a killed one goes on where it was.

    with open_workspace("runs/mine", seed=0) as workspace:
        windows = workspace.stage("windows", config, [], build_windows)
        lm = workspace.stage("lm", config, [windows], train_lm, together=True)
"""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from lexergy.errors import LexergyError
from lexergy.files import atomic_write_json, hash_of, keep, remove
from lexergy.recipes.sections.engine import EngineRecipe
from lexergy.runs.engine_choice import using_recipe
from lexergy.runs.locks import locked
from lexergy.runs.processes import is_main_process, wait_until
from lexergy.runs.shards import SHARDS, ShardStore
from lexergy.runs.stages import (
    MANIFEST,
    PARTIAL,
    Facts,
    Stage,
    begin_stage,
    current_versions,
    files_of,
    holds_other_work,
    is_finished,
    is_named,
    read_stage,
    remove_leftovers,
    stage_seed,
)
from lexergy.storage import mirror_of, mirrored, refresh


@dataclass(frozen=True)
class OpenStage:
    """A stage while it is built: where to write, from which random numbers, and whether to show progress.

    The folder may hold the beginning of this very work, when it was killed.
    """

    name: str
    folder: Path
    seed: int
    key: str
    progress: bool

    def store(self, folder: str, **provenance: Any) -> ShardStore:
        """Shards of this stage; its key stands for all that they depend on."""
        return stage_store(self, folder, **provenance)

    def announce(self, text: str) -> None:
        """A line for those who watch."""
        if self.progress:
            print(text, file=sys.stderr, flush=True)


Build = Callable[[OpenStage], Facts]


class Seconds(NamedTuple):
    """How long stages took when they were built: to make models and texts, and to measure them."""

    making: float
    measuring: float


class Workspace:
    """Brings stages up to date, one after the other; made by `open_workspace`, which holds the folder's lock."""

    def __init__(self, folder: Path, seed: int, progress: bool, *, alone: bool = True) -> None:
        self.folder = folder
        self.seed = seed
        self.progress = progress
        self.alone = alone  # no other part of the run is at work
        self.stages: dict[str, Stage] = {}

    def stage(
        self, name: str, config: dict[str, Any], inputs: Sequence[Stage], build: Build, *, together: bool = False
    ) -> Stage:
        """The finished stage `name`; `build` is called only when it is not finished yet.

        `build` must end with the same result whether it was killed before or not, and returns the facts for the
        manifest. Of several processes all build a stage `together` (a training, which shares its batches out); any
        other the first one builds alone.
        """
        seed = stage_seed(self.seed, name)
        built_from = {stage.name: stage.key for stage in inputs}
        key = hash_of({"stage": name, "config": config, "seed": seed, "built_from": built_from})
        opened = OpenStage(name, self.folder / name, seed, key, self.progress)
        _fetch(opened.folder, key)
        if not is_main_process():
            _take_part(opened, build if together else None)
        elif not is_finished(opened.folder, key):
            if not self.alone and holds_other_work(opened.folder, key):
                raise LexergyError(
                    f"another part is at work in {self.folder} with other settings; expected the same recipe and "
                    "seed in all parts; wait until it is done, or choose another folder."
                )
            attempts = begin_stage(opened.folder, key)
            opened.announce(f"stage {name}{'' if attempts == 1 else ': going on where it was'}")
            started = time.monotonic()
            facts = build(opened)
            mirror = mirror_of(opened.folder)
            if mirror is not None:
                mirror.synchronise(opened.folder, keep=(MANIFEST, PARTIAL))
            manifest = {
                "name": name,
                "key": key,
                "config": config,
                "seed": seed,
                "built_from": built_from,
                "versions": current_versions(),
                "seconds": round(time.monotonic() - started, 3),  # of the last attempt
                "attempts": attempts,
                "facts": facts,
                "files": files_of(opened.folder),
            }
            atomic_write_json(opened.folder / MANIFEST, manifest)
        if is_main_process():
            _remove_note(opened.folder)
        self.stages[name] = read_stage(opened.folder)
        return self.stages[name]

    def below(self, folder: str) -> "Workspace":
        """A workspace in a folder of this one, under the same lock."""
        return Workspace(self.folder / folder, self.seed, self.progress, alone=self.alone)

    def seconds(self, measurements: str | None = None) -> Seconds:
        """How long the stages that were asked for here took when they were built; a finished one remembers.

        Stages below the folder `measurements` measure; a stage that both makes and measures has a fact
        `measuring_seconds`; all others make.
        """
        total = measuring = 0.0
        for name, stage in self.stages.items():
            total += stage.seconds
            measures = measurements is not None and name.startswith(f"{measurements}/")
            measuring += stage.seconds if measures else stage.facts.get("measuring_seconds", 0.0)
        return Seconds(total - measuring, measuring)


@contextmanager
def open_workspace(
    folder: str | Path, seed: int, *, progress: bool = True, engine: EngineRecipe | None = None
) -> Iterator[Workspace]:
    """The workspace in `folder`, which no other process writes meanwhile. A dead process holds no lock.

    Processes that do parts of its shards (`runs.parts`) share it: one at a time until its shards are to be computed.
    Its shards are computed by the `engine`, unless `runs.engines.using_engine` names another.

    Of several processes that were launched together only the first writes, shows progress and holds the lock.
    """
    folder = mirrored(folder)
    if not is_main_process():
        yield Workspace(folder, seed, progress=False)
        return
    keep()
    with locked(folder, progress=progress) as alone, using_recipe(engine or EngineRecipe()):
        if alone:
            mirror = mirror_of(folder)
            if mirror is not None:
                mirror.discard_unpublished(folder)
            remove_leftovers(folder)
        yield Workspace(folder, seed, progress, alone=alone)


def stage_store(stage: Stage | OpenStage, folder: str, **provenance: Any) -> ShardStore:
    """The shards that a stage keeps in a folder of its own."""
    return ShardStore(stage.folder / folder, {"key": stage.key, **provenance})


def _take_part(stage: OpenStage, build: Build | None) -> None:
    """What every process but the first does in a stage: build along when it is built together, and wait."""
    manifest = stage.folder / MANIFEST
    if build is not None:
        wait_until(lambda: is_named(stage.folder / PARTIAL, stage.key) or is_named(manifest, stage.key), stage.folder)
        if not is_named(manifest, stage.key):
            build(stage)
    wait_until(lambda: is_named(manifest, stage.key), stage.folder)


def _fetch(folder: Path, key: str) -> None:
    """What the address of a run has of a stage; its shards only when it is finished, for they may be many."""
    refresh(folder, leave=SHARDS)
    if is_named(folder / MANIFEST, key):
        refresh(folder)


def _remove_note(folder: Path) -> None:
    if (folder / PARTIAL).exists():
        remove(folder / PARTIAL)
