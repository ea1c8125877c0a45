"""How a saved model names another one: so that both can be moved together, and nobody's folders are told."""

import os
from pathlib import Path


def portable(source: str, folder: str | Path) -> str:
    """A source as written into `folder`: a path from there where both are below some folder; a name stays a name."""
    path = Path(source).expanduser()
    if not path.exists():
        return source
    path, folder = path.resolve(), Path(folder).resolve()
    if os.path.commonpath([path, folder]) == path.anchor:
        return str(path)
    relative = os.path.relpath(path, folder)
    return relative if relative.startswith("..") else os.path.join(".", relative)


def located(source: str, folder: str | Path) -> str:
    """The inverse of `portable`."""
    return str((Path(folder) / source).resolve()) if source.startswith(".") else source
