"""Writes that happen wholly or not at all, reads that name what is broken, hashes of configurations, and the cache.

And whether a command keeps what it does, so that it goes on where it was when it is stopped and given again.
"""

import hashlib
import json
import os
import re
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, TypeVar

from lexergy.errors import LexergyError

# A process id alone would not do: containers give the same one again to the process that resumes the work.
PROCESS_TOKEN = uuid.uuid4().hex[:8]
AGAIN = "copy it again, or make it again"
PARTIAL_NAME = re.compile(r"(?:\.old)?\.(?P<name>.*)\.(?P<process>\d+)-(?P<token>[0-9a-f]{8})-[0-9a-f]{8}\.partial")


class Publisher(Protocol):
    """Keeps at another place what is in a folder; `storage.Mirror` is one."""

    def publish(self, written: Path, path: Path) -> None:
        """Keep the file or folder `written` there as `path`, before it is `path` here."""

    def remove(self, path: Path) -> None:
        """Remove there what was removed here."""


publishers: dict[Path, Publisher] = {}
"""Who keeps what is written atomically below a folder at another place too."""


_keeping = False


def keep() -> None:
    """What this command does from now on is kept: given again, it goes on where it was."""
    global _keeping
    _keeping = True


def keep_nothing() -> None:
    """A command begins, which keeps nothing until it calls `keep`."""
    global _keeping
    _keeping = False


def is_keeping() -> bool:
    """Whether the command at work, if it is stopped now, goes on where it was when it is given again."""
    return _keeping


def publisher_of(path: Path) -> Publisher | None:
    """Who keeps what is written at a path at another place too, if anybody."""
    return next((publisher for folder, publisher in publishers.items() if path.is_relative_to(folder)), None)


@contextmanager
def atomic_path(path: str | Path) -> Iterator[Path]:
    """Yield a name beside `path` to write a file or a folder at; it takes `path`'s place when the block ends.

    When the block fails (a full disk, Ctrl-C), what it wrote is removed and `path` is as it was. A killed
    process leaves only a `.partial`, see `remove_partials`.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.parent / partial_name(path.name)
    try:
        yield partial
        _flush(partial)
        publisher = publisher_of(path)
        if publisher is not None:
            publisher.publish(partial, path)
        _replace(partial, path)
        _flush_entry(path.parent)
    finally:
        _remove(partial)


def partial_name(name: str) -> str:
    """A name for what is half-written, which no other process and no other call uses."""
    return f".{name}.{os.getpid()}-{PROCESS_TOKEN}-{uuid.uuid4().hex[:8]}.partial"


def remove(path: Path) -> None:
    """Remove a file or folder, if it is there, and where its publisher keeps it."""
    _remove(path)
    publisher = publisher_of(path)
    if publisher is not None:
        publisher.remove(path)


def final_name(path: str) -> str:
    """The path that is being written where this is the name beside it: what a person knows."""
    folder, name = os.path.split(path)
    match = PARTIAL_NAME.fullmatch(name)
    return os.path.join(folder, match["name"]) if match else path


def atomic_write_bytes(path: str | Path, content: bytes) -> None:
    """Write `content` to `path` wholly or not at all."""
    with atomic_path(path) as partial:
        partial.write_bytes(content)


def atomic_write_text(path: str | Path, text: str) -> None:
    """Write `text` to `path` as UTF-8 wholly or not at all."""
    atomic_write_bytes(path, text.encode("utf-8"))


def atomic_write_json(path: str | Path, value: Any) -> None:
    """Write `value` to `path` as indented JSON wholly or not at all."""
    atomic_write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")


@contextmanager
def reading(path: str | Path, remedy: str = AGAIN) -> Iterator[None]:
    """Whatever a reader raises on a damaged file becomes a line that names the file and what to do.

    Readers of many formats raise whatever a wrong value first breaks, so that no list of exceptions would be whole.
    """
    try:
        yield
    except (LexergyError, MemoryError):
        raise
    except Exception as error:
        raise LexergyError(f"`{path}` cannot be read ({first_line(error)}); {remedy}.") from error


Kind = TypeVar("Kind", bound=list | dict)


def read_json(path: str | Path, kind: type[Kind], remedy: str = AGAIN) -> Kind:
    """The JSON object (`dict`) or array (`list`) in a file."""
    with reading(path, remedy):
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    if not isinstance(content, kind):
        expected = "an array" if kind is list else "an object"
        raise LexergyError(f"`{path}` holds a JSON {type(content).__name__}; expected {expected}; {remedy}.")
    return content


def inside(folder: Path, name: str) -> Path:
    """The path of a name that a file gave, if it lies in the folder."""
    if Path(name).is_absolute() or ".." in Path(name).parts:
        raise LexergyError(f"a file of {folder} names {name!r}; expected something inside of that folder; {AGAIN}.")
    return folder / name


def first_line(error: BaseException) -> str:
    """What an error says, cut to fit into a sentence."""
    said = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return (said.strip() or type(error).__name__).splitlines()[0][:160].rstrip(".")


def remove_partials(folder: str | Path, name: str | None = None) -> None:
    """Remove what killed processes left half-written in `folder`, or of one file there.

    A living writer's work is left alone.
    """
    for path in Path(folder).glob(".*.partial"):
        match = PARTIAL_NAME.fullmatch(path.name)
        if match and name in (None, match["name"]) and not _is_alive(int(match["process"]), match["token"]):
            _remove(path)


def cache_folder() -> Path:
    """`$LEXERGY_CACHE`, or `~/.cache/lexergy`."""
    return Path(os.environ.get("LEXERGY_CACHE") or "~/.cache/lexergy").expanduser()


def canonical_json(value: Any) -> str:
    """The JSON text that equal values share, whatever the order of their keys."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def hash_of(value: Any) -> str:
    """16 hexadecimal digits that name a JSON-able value."""
    return hashlib.sha256(canonical_json(value).encode("utf-8")).hexdigest()[:16]


def _replace(partial: Path, path: Path) -> None:
    """Move `partial` to `path`; a folder cannot replace a full one, so the old one steps aside first."""
    if not (partial.is_dir() and path.is_dir()):
        os.replace(partial, path)
        return
    old = partial.with_name(f".old{partial.name}")
    os.rename(path, old)
    os.rename(partial, path)
    _remove(old)


def _flush(path: Path) -> None:
    """Force a file, or a folder and all below it, to the disk."""
    for entry in [*path.rglob("*"), path] if path.is_dir() else [path]:
        _flush_entry(entry)


def _flush_entry(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _is_alive(process_id: int, token: str) -> bool:
    if process_id == os.getpid():
        return token == PROCESS_TOKEN
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
