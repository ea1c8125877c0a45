"""A process of its own for each side of a comparison, so that no other's threads or memory are in its way.

They live side by side and are asked in turn: what the machine does meanwhile, it does to all.
"""

import subprocess
import sys
from collections.abc import Mapping, Sequence


class Worker:
    """A script that prints a line when it is ready, and then one for each line that it is given."""

    def __init__(self, arguments: Sequence[str], environment: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, *arguments],
            env=dict(environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )
        self.greeting = self.answer()

    def ask(self, line: str) -> str:
        self.tell(line)
        return self.answer()

    def tell(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")

    def answer(self) -> str:
        assert self._process.stdout is not None
        answer = self._process.stdout.readline()
        if not answer:
            raise SystemExit("a worker ended; see above")
        return answer

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
