"""kill -9 at random moments of every long command: nothing is lost, nothing is doubled, nothing is changed.

make kills                               # 200 kills over all commands
python benchmarks/kills.py --seed 3 --kills 20 --only run --only arena

Each command is first run whole. Then it is begun again and again in another folder and killed, until it ends by
itself; what it prints and all files that it leaves must be the same, bit for bit, but for how long things took. Half of
the kills come at a random time, half when a file is about to be opened for writing, renamed or removed. Processes are
forked from one that has imported everything; every tenth is started as a person would start it.
"""

import argparse
import hashlib
import json
import os
import random
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

os.environ.update({"HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"})
os.environ["PYTHONPATH"] = str(Path(__file__).parent.parent / "src")  # of processes that are started anew
sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from toys.forked import Forked, import_everything
from toys.staged import PATCHED, make_small, staged_commands
from toys.timeless import timeless

WITHOUT = re.compile(r"stderr|\.lock|.*\.html|.*\.md|.*\.png|.*\.svg")  # pages say how long things took
SECONDS = 300  # for a whole command
STARTED_ANEW = 10  # every so manieth process


class Left(NamedTuple):
    """What a command leaves: a hash of each file."""

    files: dict[str, str]

    def difference(self, others: "Left") -> list[str]:
        names = self.files.keys() | others.files.keys()
        return sorted(name for name in names if self.files.get(name) != others.files.get(name))


def left_in(folder: Path, read: Path) -> Left:
    """Everything but times and codes by lot, with the run that is only `read`; nothing half-written may be there."""
    files = {}
    for path in [*sorted(folder.rglob("*")), *sorted(read.rglob("*"))]:
        if path.is_file() and not WITHOUT.fullmatch(path.name):
            base = folder if path.is_relative_to(folder) else read.parent
            files[str(path.relative_to(base))] = hashlib.sha256(_content(path)).hexdigest()
    return Left(files)


def _content(path: Path) -> bytes:
    if path.suffix == ".sqlite":
        with closing(sqlite3.connect(path)) as connection:
            return repr(sorted(connection.execute("SELECT text, log_scores, spans, num_pieces FROM scores"))).encode()
    data = path.read_bytes()
    if path.suffix == ".json" or path.name == "stdout":
        decoder, text, values = json.JSONDecoder(), data.decode().strip(), []
        while text:  # a value, or one a line
            value, end = decoder.raw_decode(text)
            values.append(timeless(value))
            text = text[end:].lstrip()
        return json.dumps(values, sort_keys=True).encode()
    return data


class Whole(NamedTuple):
    """A command that was not killed: what it left, how long it took, how often it changed a file."""

    left: Left
    seconds: float


class Kills:
    """Trials on all commands; `folder` has their inputs."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder
        self.random = random.Random(seed)
        self.processes = 0
        self.failures: list[str] = []

    def whole(self, arguments: list[str]) -> Whole:
        work, started = self._new_folder(), time.monotonic()
        status = Forked(arguments, work).wait(SECONDS)
        if status != 0:
            raise SystemExit(f"{' '.join(arguments)} ended with {status}:\n{(work / 'stderr').read_text()[-4000:]}")
        return Whole(left_in(work, self.folder / "finished"), time.monotonic() - started)

    def trial(self, name: str, arguments: list[str], whole: Whole) -> int:
        """Kill the command until it ends by itself; how many kills that took."""
        work, kills = self._new_folder(), 0
        while (status := self._start(name, arguments, work, whole.seconds)) != 0:
            kills += status in (None, -9)
            if status not in (None, -9):
                said = (work / "stderr").read_text()[-4000:]
                self.failures.append(f"{' '.join(arguments)} ended with {status} after {kills} kills:\n{said}")
                return kills
        wrong = left_in(work, self.folder / "finished").difference(whole.left)
        if wrong:
            self.failures.append(f"{' '.join(arguments)}: after {kills} kills these differ: {', '.join(wrong[:20])}")
        return kills

    def _start(self, name: str, arguments: list[str], work: Path, seconds: float) -> int | None:
        self.processes += 1
        if self.processes % STARTED_ANEW == 0 and name not in PATCHED:
            return _started_anew(arguments, work, self.random.uniform(1, 8 + 2 * seconds))
        if self.random.random() < 0.5:
            return Forked(arguments, work).wait(self.random.uniform(0.02, 1.2) * seconds)
        return Forked(arguments, work, kill_at_change=1 + int(self.random.expovariate(1 / 40))).wait(SECONDS)

    def _new_folder(self) -> Path:
        work = self.folder / "work"  # always the same: results may name it
        shutil.rmtree(work, ignore_errors=True)
        return work


def _started_anew(arguments: list[str], work: Path, seconds: float) -> int | None:
    """A process of its own, as a person starts it; None where it was killed."""
    work.mkdir(exist_ok=True)
    environment = os.environ | {"LEXERGY_CACHE": str(work / "cache")}
    with (work / "stdout").open("wb") as out, (work / "stderr").open("wb") as err:
        command = [sys.executable, "-m", "lexergy", *arguments]
        with subprocess.Popen(command, stdout=out, stderr=err, cwd=work, env=environment) as process:
            try:
                return process.wait(seconds)
            except subprocess.TimeoutExpired:
                process.kill()
                return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kills", type=int, default=200, help="over all commands")
    parser.add_argument("--only", action="append", help="one of the commands; may be given again")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary).resolve()
        os.environ["LEXERGY_CACHE"] = str(folder / "cache")
        import_everything()
        commands = staged_commands(folder)
        make_small(folder)
        todo = {name: own for name, own in commands.items() if options.only is None or name in options.only}
        kills, wholes = Kills(folder, options.seed), {}
        for name, arguments in todo.items():
            wholes[name] = kills.whole(arguments)
            again = kills.whole(arguments)  # imports are done now, and the same twice is what a kill is measured by
            wrong = again.left.difference(wholes[name].left)
            if wrong:
                raise SystemExit(f"{name} is not the same twice: {', '.join(wrong[:20])}")
            wholes[name] = again
            print(f"{name}: {len(again.left.files)} files, {again.seconds:.1f} s", flush=True)
        total = trials = 0
        while total < options.kills:
            for name, arguments in todo.items():
                before = len(kills.failures)
                own = kills.trial(name, arguments, wholes[name])
                total, trials = total + own, trials + 1
                outcome = "; ".join(kills.failures[before:]) or "the same result"
                print(f"{name}: {own} kills, {outcome} ({total} kills over {trials} runs)", flush=True)
    ended = f"{len(kills.failures)} failures" if kills.failures else "nothing lost, nothing doubled, nothing changed"
    print(f"{total} kills over {trials} runs of {len(todo)} commands: {ended}")
    sys.exit(bool(kills.failures))


if __name__ == "__main__":
    main()
