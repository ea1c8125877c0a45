"""A run is a folder of stages; a finished stage is never redone, a killed one goes on where it was.

    runs/quickstart/
        windows/stage.json      written last: configuration, seed, versions, key, seconds
        negatives/partial.json  there while the stage is not finished: whose work lies here

The key of a stage is the hash of its configuration, its seed and the keys of the stages it reads, so a
changed configuration changes the keys of just what depends on it.
"""

import json
import shutil
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from lexergy.errors import LexergyError
from lexergy.files import PARTIAL_NAME, atomic_write_json, hash_of

MANIFEST = "stage.json"
PARTIAL = "partial.json"
STALE_PREFIX = ".stale-"

Facts = dict[str, Any]


@dataclass(frozen=True)
class Stage:
    """A finished stage. `facts` are the few numbers that it leaves in its manifest."""

    name: str
    folder: Path
    key: str
    seed: int
    seconds: float
    attempts: int
    facts: Facts
    versions: dict[str, str]


def stage_seed(run_seed: int, name: str) -> int:
    """A seed for each stage, so that no two stages use the same random numbers."""
    return int(hash_of(["seed", run_seed, name])[:8], 16)


def begin_stage(folder: Path, key: str) -> int:
    """Clear the folder unless it holds the beginning of this very work; return which attempt this is."""
    partial = read_json(folder / PARTIAL)
    if partial is None or partial["key"] != key or (folder / MANIFEST).exists():
        _clear(folder)
        partial = {"key": key, "attempts": 0}
    folder.mkdir(parents=True, exist_ok=True)
    attempts: int = partial["attempts"] + 1
    atomic_write_json(folder / PARTIAL, {"key": key, "attempts": attempts})
    return attempts


def _clear(folder: Path) -> None:
    if not folder.exists():
        return
    is_stage = (folder / MANIFEST).exists() or (folder / PARTIAL).exists()
    if not is_stage and any(folder.iterdir()):
        raise LexergyError(
            f"{folder} holds files that no run of Lexergy wrote; expected a new or empty folder; "
            "choose another folder for the run."
        )
    # Renamed first: a folder that is half deleted must never look like the work of a stage.
    stale = folder.parent / f"{STALE_PREFIX}{folder.name}"
    folder.rename(stale)
    shutil.rmtree(stale)


def is_named(path: Path, key: str) -> bool:
    """Whether a manifest, or the note of a begun stage, has this key."""
    content = read_json(path)
    return content is not None and content["key"] == key


def remove_leftovers(folder: Path) -> None:
    """Remove what killed processes left half-written or half-cleared; the lock says that none is alive."""
    partials = [path for path in folder.rglob(".*.partial") if PARTIAL_NAME.fullmatch(path.name)]
    for leftover in [*folder.rglob(f"{STALE_PREFIX}*"), *partials]:
        if leftover.is_dir():
            shutil.rmtree(leftover)
        else:
            leftover.unlink(missing_ok=True)


def read_stage(folder: Path) -> Stage:
    """A finished stage from its manifest."""
    manifest = read_json(folder / MANIFEST)
    if manifest is None:
        raise LexergyError(f"the stage {folder} is not finished; start the same run again to go on.")
    stored = ("name", "key", "seed", "seconds", "attempts", "facts", "versions")
    return Stage(folder=folder, **{name: manifest[name] for name in stored})


def current_versions() -> dict[str, str]:
    """Versions of what a stage's numbers depend on."""
    return {name: version(name) for name in ("lexergy", "torch", "transformers")}


def read_json(path: Path) -> Any:
    """The content of a file written atomically; None when there is no such file."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
