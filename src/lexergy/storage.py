"""Places other than this machine's folders: `s3://bucket/run`, `gs://`, `memory://`, whatever fsspec can open.

Weights, Parquet and tokenizers want files. So a place with an address has a mirror, a folder in the cache:

    fetched("s3://bucket/texts")   the mirror's path, brought up to date
    mirrored("s3://bucket/run")    the mirror's path, as it is; `refresh` brings parts of it up to date

What `files.atomic_path` writes in a mirror is published at the address first, so that a mirror has nothing finished
that its address has not. An object store shows an object when all of it has arrived; elsewhere a file is renamed then.
"""

import errno
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from lexergy.errors import LexergyError
from lexergy.files import (
    PARTIAL_NAME,
    atomic_write_json,
    cache_folder,
    first_line,
    hash_of,
    inside,
    partial_name,
    publisher_of,
    publishers,
    read_json,
)

ADDRESS = re.compile(r"(?P<protocol>[A-Za-z][A-Za-z0-9+.-]*)://(?P<rest>.*)")
NO_STORAGE = ("http", "https")  # pages and servers
FILES = ("file", "local")
OBJECT_STORES = {"s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "adl", "oss", "oci"}
"""Where an object appears wholly or not at all, and renaming is a copy."""
EXTRAS = {"s3": "pip install 'lexergy[storage]'", "s3a": "pip install 'lexergy[storage]'"}
LOCKS = ".locks"  # at the address only, see `runs.leases`
FILES_AT_ONCE = 64
SHOWN_BYTES = 10**7  # less is fetched without a word
VERSION_KEYS = ("ETag", "etag", "md5Hash", "content_md5", "mtime", "created", "LastModified", "last_modified")

Info: TypeAlias = dict[str, Any]


def is_address(place: str | Path) -> bool:
    """Whether a place is one of fsspec's, such as `s3://bucket/run`."""
    match = ADDRESS.fullmatch(str(place))
    return match is not None and match["protocol"].lower() not in NO_STORAGE


def mirrored(place: str | Path) -> Path:
    """The path of a place: its own, or that of an address's mirror, as it is.

    Examples:
        >>> from lexergy.storage import mirrored
        >>> mirrored("runs/mine").as_posix(), mirrored("memory://runs/mine").name
        ('runs/mine', 'mine')
    """
    if not is_address(place):
        address = collapsed_address(place) if isinstance(place, Path) else None
        if address is not None:
            raise LexergyError(f"{place} is a Path, which has lost a `/` of {address}; expected a string.")
        return Path(place)
    protocol, rest = str(place).split("://", 1)
    if protocol.lower() in FILES:
        return Path(rest)
    if not rest.strip("/"):
        raise LexergyError(f"{place} is a whole storage; expected a place in it, such as {protocol}://bucket/run.")
    mirror = Mirror(f"{protocol}://{rest.rstrip('/')}")
    known = publishers.setdefault(mirror.path, mirror)
    assert isinstance(known, Mirror)
    return known.path


def collapsed_address(path: Path) -> str | None:
    """The address that a path was made of by mistake, which took one of its slashes."""
    match = re.fullmatch(r"([a-z][a-z0-9]+):/(.+)", str(path))
    return None if match is None or Path(f"{match[1]}:").exists() else f"{match[1]}://{match[2]}"


def fetched(place: str | Path) -> Path:
    """The path of a place; what is new at an address is brought first."""
    path = mirrored(place)
    mirror = mirror_of(path)
    if mirror is not None and path == mirror.path and not mirror.fetch(path):
        raise LexergyError(f"there is nothing at {mirror.address}; check the address.")
    return path


def fetched_source(source: str | Path) -> str:
    """A source that may be a name too, as it is; that of an address is the mirror's path, brought up to date."""
    return str(fetched(source)) if is_address(source) else str(source)


def refresh(path: Path, *, leave: str | None = None) -> None:
    """Bring a path up to date with its address, if it has one; files whose name is like `leave` are left there."""
    mirror = mirror_of(path)
    if mirror is not None:
        mirror.fetch(path, leave=leave)


def mirror_of(path: Path) -> "Mirror | None":
    """The mirror that a path lies in."""
    publisher = publisher_of(path)
    return publisher if isinstance(publisher, Mirror) else None


def addressed(text: str | Path) -> str:
    """A text for people, with addresses where it names mirrors."""
    told = str(text)
    for folder, publisher in publishers.items():
        if isinstance(publisher, Mirror):
            told = told.replace(str(folder), publisher.address)
    return told


class _Record(NamedTuple):
    """What a file of a mirror was when it was the same as at the address."""

    version: str
    size: int
    changed: int  # nanoseconds


class Mirror:
    """A local folder, or file, and the address at which it is kept."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.filesystem, self.root = open_address(address)
        name = self.root.rstrip("/").rpartition("/")[2]
        base = (
            cache_folder().absolute() / "storage" / f"{re.sub('[^A-Za-z0-9]+', '-', address)[:60]}-{hash_of(address)}"
        )
        self.path = base / name
        self._records = base / "records"
        self._still_mine: list[Callable[[], None]] = []

    @contextmanager
    def guarded(self, still_mine: Callable[[], None]) -> Iterator[None]:
        """Publish only while `still_mine` raises nothing."""
        self._still_mine.append(still_mine)
        try:
            yield
        finally:
            self._still_mine.remove(still_mine)

    def remote(self, path: Path) -> str:
        """Where fsspec's file system has a path of the mirror."""
        return self._remote(self._name(path))

    def list(self, path: Path) -> dict[str, Info]:
        """What is at the address of a path, by name below the mirror's root ("" for a mirror of one file)."""
        with asking(self.address):
            self.filesystem.invalidate_cache()
            listed = self.filesystem.find(self.remote(path), detail=True)
        names = {remote.removeprefix(self.root).lstrip("/"): info for remote, info in listed.items()}
        return {name: info for name, info in names.items() if info["type"] == "file" and not _is_private(name)}

    def fetch(self, path: Path, *, leave: str | None = None) -> int:
        """Bring what has changed below a path and remove what is gone; how many files there are."""
        recorded = set(self._recorded(path))  # before the list: what was published since is not gone
        listed = self.list(path)
        wanted = [name for name in listed if leave is None or not fnmatch(name.rpartition("/")[2], leave)]
        self._download({name: listed[name] for name in wanted if not self._is_current(name, listed[name])})
        for name in recorded - listed.keys():
            self._local(name).unlink(missing_ok=True)
            self._record_file(name).unlink(missing_ok=True)
        return len(listed)

    def publish(self, written: Path, path: Path) -> None:
        """Upload the file or folder `written` as `path`; nobody ever sees half a file."""
        files = [file for file in written.rglob("*") if file.is_file()] if written.is_dir() else [written]
        for file in files:
            self._upload(file, self._name(path / file.relative_to(written)))

    def remove(self, path: Path) -> None:
        """Remove a file, or all below a folder, from the address."""
        self.remove_all(self.list(path))

    def remove_all(self, names: Iterable[str]) -> None:
        """Remove files from the address, in this order."""
        with asking(self.address):
            for name in names:
                self._check()
                self.filesystem.rm_file(self._remote(name))
                self._record_file(name).unlink(missing_ok=True)

    def synchronise(self, folder: Path, keep: Iterable[str] = ()) -> None:
        """Publish what was written in a folder by other means, and remove there what is gone here, but for `keep`."""
        here = {self._name(file): file for file in folder.rglob("*") if file.is_file() and not _is_private(file.name)}
        kept = {self._name(folder / name) for name in keep}
        for name, file in here.items():
            if name not in kept and not self._is_published(name):
                self._upload(file, name)
        self.remove_all(name for name in self.list(folder) if name not in here and name not in kept)

    def discard_unpublished(self, folder: Path) -> None:
        """Remove what killed processes left in a folder and half-written at its address; none may be at work there."""
        for file in folder.rglob("*"):
            if file.is_file() and not self._is_published(self._name(file)):
                file.unlink()
        with asking(self.address):
            for remote in self.filesystem.find(self.remote(folder)):
                if PARTIAL_NAME.fullmatch(remote.rpartition("/")[2]):
                    self.filesystem.rm_file(remote)

    def _upload(self, file: Path, name: str) -> None:
        self._check()
        remote = self._remote(name)
        with asking(self.address):
            if ADDRESS.fullmatch(self.address)["protocol"] in OBJECT_STORES:  # type: ignore[index]
                self.filesystem.put_file(str(file), remote)
            else:
                self._rename_when_whole(file, remote)
            self.filesystem.invalidate_cache()
            info = self.filesystem.info(remote)
        self._note(name, info, file)

    def _rename_when_whole(self, file: Path, remote: str) -> None:
        folder, _, name = remote.rpartition("/")
        partial = f"{folder}/{partial_name(name)}"
        self.filesystem.makedirs(folder, exist_ok=True)
        try:
            self.filesystem.put_file(str(file), partial)
            self.filesystem.mv(partial, remote)
        except BaseException:
            if self.filesystem.exists(partial):
                self.filesystem.rm_file(partial)
            raise

    def _download(self, infos: dict[str, Info]) -> None:
        # Imported here: commands that fetch nothing start sooner.
        from lexergy.progress import progress_bar

        total = sum(info["size"] for info in infos.values())
        names = list(infos)
        with progress_bar(f"fetching {self.address}", len(names), total >= SHOWN_BYTES) as bar:
            for first in range(0, len(names), FILES_AT_ONCE):
                batch = {name: self._partial(name) for name in names[first : first + FILES_AT_ONCE]}
                try:
                    with asking(self.address):
                        self.filesystem.get(
                            [self._remote(name) for name in batch], [str(file) for file in batch.values()]
                        )
                    for name, file in batch.items():
                        self._arrived(name, file, infos[name])
                finally:
                    for file in batch.values():
                        file.unlink(missing_ok=True)
                bar.advance(len(batch))

    def _arrived(self, name: str, file: Path, info: Info) -> None:
        if file.stat().st_size != info["size"]:
            raise LexergyError(
                f"{self.address}/{name} changed, or the connection broke, while it was fetched "
                f"({file.stat().st_size} of {info['size']} bytes); run the same command again."
            )
        self._note(name, info, file)
        file.replace(self._local(name))

    def _partial(self, name: str) -> Path:
        path = self._local(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        return path.parent / partial_name(path.name)

    def _note(self, name: str, info: Info, file: Path) -> None:
        """Beside the file's time, so that the note is never taken for one about another file of that name."""
        stat = file.stat()
        atomic_write_json(self._record_file(name), _Record(_version(info), stat.st_size, stat.st_mtime_ns)._asdict())

    def _record_of(self, name: str) -> _Record | None:
        file = self._record_file(name)
        try:
            return _Record(**read_json(file, dict)) if file.is_file() else None
        except (LexergyError, TypeError):  # damaged: fetched again
            return None

    def _is_published(self, name: str) -> bool:
        record, path = self._record_of(name), self._local(name)
        if record is None or not path.is_file():
            return False
        stat = path.stat()
        return (record.size, record.changed) == (stat.st_size, stat.st_mtime_ns)

    def _is_current(self, name: str, info: Info) -> bool:
        record = self._record_of(name)
        return record is not None and record.version == _version(info) and self._is_published(name)

    def _recorded(self, path: Path) -> Iterator[str]:
        name = self._name(path)
        folder = self._records / name
        for file in folder.rglob("*.json") if folder.is_dir() else ():
            yield file.relative_to(self._records).as_posix().removesuffix(".json")
        if name and self._record_file(name).is_file():
            yield name

    def _record_file(self, name: str) -> Path:
        return inside(self._records, f"{name or self.path.name}.json")

    def _local(self, name: str) -> Path:
        return inside(self.path, name) if name else self.path

    def _name(self, path: Path) -> str:
        name = path.relative_to(self.path).as_posix()
        return "" if name == "." else name

    def _remote(self, name: str) -> str:
        return f"{self.root}/{name}" if name else self.root

    def _check(self) -> None:
        for check in self._still_mine:
            check()


def open_address(address: str) -> tuple[Any, str]:
    """fsspec's file system of an address, and the path in it."""
    from fsspec.core import url_to_fs

    protocol = address.split("://", 1)[0]
    try:
        with asking(address):
            filesystem, root = url_to_fs(address)
    except LexergyError as error:
        if isinstance(error.__cause__, ImportError):
            remedy = EXTRAS.get(protocol, f"fsspec says: {first_line(error.__cause__)}")
            raise LexergyError(f"`{protocol}://` needs a package that is not installed; {remedy}.") from None
        if isinstance(error.__cause__, ValueError):
            raise LexergyError(
                f"`{protocol}://` of {address} is no storage that fsspec knows; expected s3://, gs://, memory:// or "
                "a folder."
            ) from None
        raise
    return filesystem, root


@contextmanager
def asking(address: str) -> Iterator[None]:
    """Whatever a storage raises becomes a line that names the address."""
    try:
        yield
    except (LexergyError, MemoryError):
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise LexergyError(
            f"{address} cannot be used ({type(error).__name__}: {first_line(error)}); check the address, the "
            "connection and your credentials, then run the same command again; finished work is kept."
        ) from error


def _version(info: Info) -> str:
    return next((str(info[key]) for key in VERSION_KEYS if info.get(key) is not None), "") + f" {info['size']}"


def _is_private(name: str) -> bool:
    """Locks, and what is being written."""
    return LOCKS in name.split("/") or PARTIAL_NAME.fullmatch(name.rpartition("/")[2]) is not None
