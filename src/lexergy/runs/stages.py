"""A run is a folder of stages; a finished stage is never redone, a killed one goes on where it was.

    runs/quickstart/
        windows/stage.json      written last: configuration, seed, versions, key, seconds
        negatives/partial.json  there while the stage is not finished: whose work lies here

The key of a stage is the hash of its configuration, its seed and the keys of the stages it reads, so a
changed configuration changes the keys of just what depends on it.
"""

import re
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from lexergy.errors import LexergyError
from lexergy.files import PARTIAL_NAME, atomic_write_json, hash_of, remove
from lexergy.files import read_json as read_object
from lexergy.storage import mirror_of

MANIFEST = "stage.json"
PARTIAL = "partial.json"
STALE_PREFIX = ".stale-"
HALF_WRITTEN = re.compile(rf"{PARTIAL_NAME.pattern}|\.tmp[A-Za-z0-9]{{6}}")  # the latter by safetensors
RUN_AGAIN = "start the same run again to make it anew"
STORED: dict[str, Any] = {
    "name": str,
    "key": str,
    "seed": int,
    "seconds": int | float,
    "attempts": int,
    "facts": dict,
    "versions": dict,
}

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
    if holds_other_work(folder, key):
        _clear(folder)
    partial = intact_json(folder / PARTIAL) or {}
    remove(folder / MANIFEST)  # some of its files are lost
    folder.mkdir(parents=True, exist_ok=True)
    attempts: int = partial.get("attempts", 0) + 1
    atomic_write_json(folder / PARTIAL, {"key": key, "attempts": attempts})
    return attempts


def holds_other_work(folder: Path, key: str) -> bool:
    """Whether there is a folder, and it holds anything but the beginning of this very work."""
    if not folder.exists() or is_named(folder / MANIFEST, key):  # some files of the latter are lost
        return False
    return (folder / MANIFEST).exists() or not is_named(folder / PARTIAL, key)


def _clear(folder: Path) -> None:
    is_stage = (folder / MANIFEST).exists() or (folder / PARTIAL).exists()
    if not is_stage and any(folder.iterdir()):
        raise LexergyError(
            f"{folder} holds files that no run of Lexergy wrote; expected a new or empty folder; "
            "choose another folder for the run."
        )
    # Renamed first: a folder that is half deleted must never look like the work of a stage.
    stale = folder.parent / f"{STALE_PREFIX}{folder.name}"
    folder.rename(stale)
    remove(stale)
    mirror = mirror_of(folder)
    if mirror is not None:  # where nothing can be renamed: what says whose work it is goes last
        notes = (MANIFEST, PARTIAL)
        mirror.remove_all(sorted(mirror.list(folder), key=lambda name: name.endswith(notes)))


def is_named(path: Path, key: str) -> bool:
    """Whether a manifest, or the note of a begun stage, has this key."""
    content = intact_json(path)
    return content is not None and content.get("key") == key


def is_finished(folder: Path, key: str) -> bool:
    """Whether the stage with this key is there, with all the files that it left."""
    manifest = intact_json(folder / MANIFEST)
    return manifest is not None and manifest.get("key") == key and lost_file(folder, manifest) is None


def files_of(folder: Path) -> dict[str, int]:
    """The files of a stage and their sizes; a stage below it has its own."""
    files: dict[str, int] = {}
    for path in sorted(folder.iterdir()):
        if path.is_dir() and not ((path / MANIFEST).exists() or (path / PARTIAL).exists()):
            files |= {f"{path.name}/{name}": size for name, size in files_of(path).items()}
        elif path.is_file() and path.name not in (MANIFEST, PARTIAL):
            files[path.name] = path.stat().st_size
    return files


def lost_file(folder: Path, manifest: dict[str, Any]) -> Path | None:
    """The first of a stage's files that is gone or has another size; stages of earlier versions have no list."""
    listed = manifest.get("files", {})
    for name, size in listed.items() if isinstance(listed, dict) else ():
        path: Path = folder / name
        if not path.is_file() or path.stat().st_size != size:
            return path
    return None


def remove_leftovers(folder: Path) -> None:
    """Remove what killed processes left half-written or half-cleared; the lock says that none is alive."""
    partials = [path for path in folder.rglob(".*") if HALF_WRITTEN.fullmatch(path.name)]
    for leftover in [*folder.rglob(f"{STALE_PREFIX}*"), *partials]:
        remove(leftover)


def read_stage(folder: Path) -> Stage:
    """A finished stage from its manifest."""
    manifest = read_json(folder / MANIFEST)
    if manifest is None:
        raise LexergyError(f"the stage {folder} is not finished; start the same run again to go on.")
    lost = lost_file(folder, manifest)
    if lost is not None:
        raise LexergyError(f"{lost} is missing or has another size; start the same run again to make it anew.")
    for name, kind in STORED.items():
        if not isinstance(manifest.get(name), kind):
            raise LexergyError(f"`{name}` of {folder / MANIFEST} is damaged; {RUN_AGAIN}.")
    return Stage(folder=folder, **{name: manifest[name] for name in STORED})


def current_versions() -> dict[str, str]:
    """Versions of what a stage's numbers depend on."""
    return {name: version(name) for name in ("lexergy", "torch", "transformers")}


def read_json(path: Path) -> dict[str, Any] | None:
    """The object in a file written atomically; None when there is no such file."""
    return read_object(path, dict, RUN_AGAIN) if path.is_file() else None


def intact_json(path: Path) -> dict[str, Any] | None:
    """The object in a file; None when there is no such file or it is damaged, and so has to be made again."""
    try:
        return read_json(path)
    except LexergyError:
        return None
