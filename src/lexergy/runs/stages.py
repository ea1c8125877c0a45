"""A run is a folder of stages; a finished stage is never redone, a killed one goes on where it was.

    runs/quickstart/
        windows/stage.json      written last: configuration, seed, versions, key, seconds
        negatives/partial.json  there while the stage is not finished: whose work lies here

The key of a stage is the hash of its configuration, its seed and the keys of the stages it reads, so a
changed configuration changes the keys of just what depends on it.
"""

import json
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from lexergy.files import PARTIAL_NAME, atomic_write_json, hash_of
from lexergy.errors import LexergyError
from lexergy.runs.processes import is_main_process, wait_until

MANIFEST = "stage.json"
PARTIAL = "partial.json"
STALE_PREFIX = ".stale-"


@dataclass(frozen=True)
class Stage:
    """A finished stage. `facts` are what its build had to tell (counts and the like)."""

    name: str
    folder: Path
    key: str
    seed: int
    seconds: float
    attempts: int
    facts: dict[str, Any]
    versions: dict[str, str]


def stage_seed(run_seed: int, name: str) -> int:
    """A seed for each stage, so that no two stages use the same random numbers."""
    return int(hash_of(["seed", run_seed, name])[:8], 16)


class StageRunner:
    """Brings the stages of one run folder up to date, one after the other; made while holding its lock."""

    def __init__(self, folder: Path, run_seed: int, announce: Callable[[str], None]) -> None:
        self.folder = folder
        self.run_seed = run_seed
        self.stages: dict[str, Stage] = {}
        self._announce = announce
        if is_main_process():
            _remove_leftovers(folder)

    def run(
        self,
        name: str,
        config: dict[str, Any],
        inputs: list[Stage],
        build: Callable[[Path, int], dict[str, Any]],
        *,
        together: bool = False,
    ) -> Stage:
        """The finished stage `name`; `build(folder, seed)` is called only when it is not finished yet.

        `build` may find its own earlier work in the folder, when it was killed, and must end with the same
        result as if it had not been. It returns the facts for the manifest. Of several processes all build a
        stage `together` (a training, which shares its batches out); any other the first one builds alone.
        """
        seed = stage_seed(self.run_seed, name)
        built_from = {stage.name: stage.key for stage in inputs}
        key = hash_of({"stage": name, "config": config, "seed": seed, "built_from": built_from})
        folder = self.folder / name
        if not is_main_process():
            _take_part(folder, key, (lambda: build(folder, seed)) if together else None)
        elif not _is_named(folder / MANIFEST, key):
            attempts = self._begin(folder, key)
            self._announce(f"{name}{'' if attempts == 1 else ': going on where it was'}")
            started = time.monotonic()
            facts = build(folder, seed)
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
            }
            atomic_write_json(folder / MANIFEST, manifest)
        if is_main_process():
            (folder / PARTIAL).unlink(missing_ok=True)
        stage = read_stage(folder)
        self.stages[name] = stage
        return stage

    def _begin(self, folder: Path, key: str) -> int:
        """Clear the folder unless it holds the beginning of this very work; return which attempt this is."""
        partial = read_json(folder / PARTIAL)
        if partial is None or partial["key"] != key or (folder / MANIFEST).exists():
            self._clear(folder)
            partial = {"key": key, "attempts": 0}
        folder.mkdir(parents=True, exist_ok=True)
        attempts = partial["attempts"] + 1
        atomic_write_json(folder / PARTIAL, {"key": key, "attempts": attempts})
        return attempts

    def _clear(self, folder: Path) -> None:
        if not folder.exists():
            return
        ours = (folder / MANIFEST).exists() or (folder / PARTIAL).exists()
        if not ours and any(folder.iterdir()):
            raise LexergyError(
                f"{folder} holds files that no run of Lexergy wrote; expected a new or empty folder; "
                "choose another folder for the run."
            )
        # Renamed first: a folder that is half deleted must never look like the work of some stage.
        stale = self.folder / f"{STALE_PREFIX}{folder.name}"
        folder.rename(stale)
        shutil.rmtree(stale)


def _take_part(folder: Path, key: str, build: Callable[[], Any] | None) -> None:
    """What another process than the first does in a stage: build with it where there is something to, and wait."""
    if build is not None:
        wait_until(lambda: _is_named(folder / PARTIAL, key) or _is_named(folder / MANIFEST, key))
        if not _is_named(folder / MANIFEST, key):
            build()
    wait_until(lambda: _is_named(folder / MANIFEST, key))


def _is_named(path: Path, key: str) -> bool:
    content = read_json(path)
    return content is not None and content["key"] == key


def _remove_leftovers(folder: Path) -> None:
    """Remove what killed processes left half-written or half-cleared; the lock says that none is alive."""
    partials = [path for path in folder.rglob(".*.partial") if PARTIAL_NAME.fullmatch(path.name)]
    for leftover in [*folder.glob(f"{STALE_PREFIX}*"), *partials]:
        if leftover.is_dir():
            shutil.rmtree(leftover)
        else:
            leftover.unlink(missing_ok=True)


def read_stage(folder: Path) -> Stage:
    """A finished stage from its manifest."""
    manifest = read_json(folder / MANIFEST)
    if manifest is None:
        raise LexergyError(f"the stage {folder} is not finished; start the same run again to go on.")
    return Stage(
        name=manifest["name"],
        folder=folder,
        key=manifest["key"],
        seed=manifest["seed"],
        seconds=manifest["seconds"],
        attempts=manifest["attempts"],
        facts=manifest["facts"],
        versions=manifest["versions"],
    )


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold the run folder's lock: two processes never write the same run. A dead process holds no lock.

    Of several processes that were launched together only the first writes, and holds it.
    """
    if not is_main_process():
        yield
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (FileExistsError, NotADirectoryError):
        raise LexergyError(f"{folder} is a file; expected a folder for the run, new or of an earlier run.") from None
    lock = FileLock(folder / ".lock", timeout=0)
    try:
        lock.acquire()
    except Timeout:
        raise LexergyError(
            f"another process is writing the run {folder}; wait until it has finished, or choose another folder."
        ) from None
    try:
        yield
    finally:
        lock.release()


def current_versions() -> dict[str, str]:
    """Versions of what a stage's numbers depend on."""
    return {name: version(name) for name in ("lexergy", "torch", "transformers")}


def read_json(path: Path) -> Any:
    """The content of a file written atomically; None when there is no such file."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
