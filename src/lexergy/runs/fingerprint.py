"""What a source held when it was used, so that a file changed afterwards is noticed."""

import hashlib
from pathlib import Path

from lexergy.data.folder import locate
from lexergy.recipes.sections.runtime import split_precision

WHOLE_BYTES = 2**26  # larger files are weights: their length, head and tail tell them apart
ENDS_BYTES = 2**20


def fingerprint(source: str) -> str | None:
    """A hash of a file's or folder's content; None for a name, which stands for the same thing everywhere.

    An LM in a precision that the source names (`folder#precision=bfloat16`) is another than that of the folder.
    """
    place, precision = split_precision(source)
    path = locate(str(place))
    if not path.exists():
        return None
    digest = hashlib.sha256(b"" if precision is None else f"{precision}\n".encode())
    for file in [path] if path.is_file() else sorted(path.rglob("*")):
        if file.is_file():
            digest.update(f"{file.relative_to(path).as_posix()} {file.stat().st_size}\n".encode())
            digest.update(_content(file))
    return digest.hexdigest()[:16]


def content_hash(file: Path) -> str:
    """A hash of all that a file holds, however large it is."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()[:16]


def _content(file: Path) -> bytes:
    size = file.stat().st_size
    with file.open("rb") as stream:
        if size <= WHOLE_BYTES:
            return hashlib.file_digest(stream, "sha256").digest()
        head = stream.read(ENDS_BYTES)
        stream.seek(size - ENDS_BYTES)
        return hashlib.sha256(head + stream.read()).digest()
