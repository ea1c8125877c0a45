"""A run served by `lexergy serve` in a process of its own, for benchmarks that ask it."""

import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil


@dataclass
class ServedProcess:
    url: str
    process: psutil.Process
    log: Path

    def memory(self) -> float:
        """Resident megabytes."""
        return self.process.memory_info().rss / 1e6

    def models(self) -> list[str]:
        return [card["id"] for card in httpx.get(f"{self.url}/v1/models").json()["data"]]


@contextmanager
def served(run: str, *options: str) -> Iterator[ServedProcess]:
    """Ready to be asked; what it logged must hold no traceback."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "stderr"
        with log.open("w") as stderr:
            command = [sys.executable, "-m", "lexergy", "serve", run, "--port", "0", *options]
            process = subprocess.Popen(command, stderr=stderr)
        try:
            url = _url(log, process)
            while httpx.get(f"{url}/ready").status_code != 200:
                time.sleep(0.2)
            yield ServedProcess(url, psutil.Process(process.pid), log)
        except Exception:
            print(f"the server's status is {process.poll()}, its log:\n{log.read_text()}")
            raise
        finally:
            process.terminate()
            process.wait()
        assert "Traceback" not in log.read_text(), log.read_text()


def _url(log: Path, process: subprocess.Popen) -> str:
    """Where it listens, once it answers."""
    while process.poll() is None:
        if found := re.match(r"(http://\S+)/ ", log.read_text()):
            try:
                httpx.get(f"{found[1]}/health")
                return found[1]
            except httpx.TransportError:
                pass
        time.sleep(0.1)
    raise RuntimeError(log.read_text())
