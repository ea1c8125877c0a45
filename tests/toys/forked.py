"""Commands in processes forked from this one, which has imported all that they need: they start at once."""

import contextlib
import importlib
import os
import pkgutil
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import lexergy
from lexergy.cli.main import main
from lexergy.errors import LexergyError

CHANGES = ("open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "sqlite3.connect")  # audit events


def import_everything() -> None:
    """All of Lexergy and what it needs, once and for all forked processes; what is an extra may be missing."""
    for module in pkgutil.walk_packages(lexergy.__path__, "lexergy."):
        if module.name != "lexergy.__main__":
            with contextlib.suppress(ImportError, LexergyError):
                importlib.import_module(module.name)
    importlib.import_module("matplotlib.backends.backend_agg")


class Forked:
    """A command line in a process of its own, whose working folder, cache and output are in `folder`."""

    def __init__(self, arguments: list[str], folder: Path, *, kill_at_change: int | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        sys.stdout.flush()
        self.pid = os.fork()
        if self.pid == 0:
            _become(arguments, folder, kill_at_change)

    def wait(self, seconds: float) -> int | None:
        """Its exit status, negative where a signal ended it; None, and killed, where it takes longer than this."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.002)
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        return None


def _become(arguments: list[str], folder: Path, kill_at_change: int | None) -> None:
    """The forked process: it never returns."""
    status = 70
    try:
        for name, descriptor in (("stdout", 1), ("stderr", 2)):
            file = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(file, descriptor)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.chdir(folder)
        os.environ["LEXERGY_CACHE"] = str(folder / "cache")
        sys.argv = ["lexergy", *arguments]
        if kill_at_change is not None:
            sys.addaudithook(_killer(kill_at_change))
        main()
    except SystemExit as stop:
        status = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _killer(change: int) -> Callable[[str, tuple[object, ...]], None]:
    """kill -9, when this process is about to make that change to files (the first is 1)."""
    left = change

    def hook(event: str, details: tuple[object, ...]) -> None:
        nonlocal left
        if event in CHANGES and not (event == "open" and not _is_writing(details)):
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    return hook


def _is_writing(details: tuple[object, ...]) -> bool:
    flags = details[2]
    return isinstance(flags, int) and bool(flags & (os.O_WRONLY | os.O_RDWR))
