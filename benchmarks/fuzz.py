"""Calls, recipes, files and damaged models that nobody would make on purpose: no traceback, no hang, no silent failure.

make fuzz                                           # 100,000 of them
python benchmarks/fuzz.py --seed 3 --calls 5000
python benchmarks/fuzz.py --seed 3 --first 1234 --calls 1    # that one again

Calls are made in a process forked from one that has imported everything. Where one of them brings it down or hangs in a
library, that is told, and another process goes on after it.
"""

import argparse
import json
import os
import resource
import select
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

os.environ.update(
    {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "OMP_NUM_THREADS": "1", "TRANSFORMERS_VERBOSITY": "error"}
)
sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from lexergy.cli.main import quieten_libraries
from toys.forked import Forked, import_everything
from toys.fuzz import Failed, Fuzz, Reading, fuzzed, run_readings
from toys.staged import staged_commands

SECONDS = 700  # without a word of a process: it hangs
BYTES = 2**34  # of address space: what would fill the machine's memory fails
MADE = ("pretrain", "detect-encoder", "finetune", "seq2seq")


def readings(folder: Path) -> list[Reading]:
    """Runs and models of every kind, and commands that read them."""
    commands = staged_commands(folder)
    for name in MADE:
        if Forked(commands[name], folder / name).wait(1000) != 0:
            raise SystemExit(f"{name} failed: {(folder / name / 'stderr').read_text()[-2000:]}")
    made = {name: folder / name / "out" for name in MADE}
    few = {name: _few_lines(folder / name) for name in ("lines.txt", "lists.jsonl", "people.jsonl", "labelled.jsonl")}
    candidates = folder / "candidates.jsonl"
    candidates.write_text(json.dumps({"prompt": "our union", "candidates": [" is strong", " was"]}) + "\n")
    short = ("--length", "3", "--chains", "2", "--sweeps", "2", "--burn-in", "0")
    run, electric = folder / "finished", made["pretrain"] / "electric"
    return [
        *run_readings(run),
        Reading(run, ("rerank", "FOLDER", str(candidates), "--json")),
        Reading(run / "lm", ("score", "FOLDER", few["lines.txt"], "--json")),
        Reading(electric, ("score", "FOLDER", few["lines.txt"], "--json")),
        Reading(electric, ("explain", "FOLDER", "--text", "our union is strong", "--json")),
        Reading(electric, ("rescore", few["lists.jsonl"], "--model", "FOLDER", "--lambda", "0.5", "--json")),
        Reading(made["pretrain"] / "two-tower", ("score", "FOLDER", few["lines.txt"], "--json")),
        Reading(made["pretrain"] / "masked-lm", ("mcmc", "FOLDER", *short, "--json")),
        Reading(made["detect-encoder"], ("detect", "files", "FOLDER", few["people.jsonl"], "--json")),
        Reading(made["finetune"], ("finetune", "predict", "FOLDER", few["labelled.jsonl"], "--json")),
        Reading(made["seq2seq"], ("seq2seq", "predict", "FOLDER", str(folder / "tagging.txt"), "--json")),
    ]


def _few_lines(path: Path) -> str:
    few = path.with_name(f"few-{path.name}")
    few.write_text("".join(line + "\n" for line in path.read_text().splitlines()[:2]))
    return str(few)


class Worker:
    """A forked process that makes the calls from `first` on, and says after each what became of it."""

    def __init__(self, seed: int, own: list[Reading], first: int, end: int) -> None:
        self.next = first
        receiving, sending = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(receiving)
            _make_calls(seed, own, range(first, end), sending)
        os.close(sending)
        self.pipe = os.fdopen(receiving, "rb", buffering=0)  # `select` sees no buffer

    def told(self) -> Iterator[tuple[str, str]]:
        """What each call was, and what went wrong, if anything; the last of a process that died or hangs says so."""
        while True:
            waiting, _, _ = select.select([self.pipe], [], [], SECONDS)
            line = self.pipe.readline() if waiting else b""
            if not line:
                break
            self.next += 1
            yield tuple(json.loads(line))
        if not waiting:
            os.kill(self.pid, signal.SIGKILL)
        status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        if not waiting or status != 0:
            self.next += 1
            yield "process", f"it hangs: {SECONDS} s" if not waiting else f"the process died with {status}"


def _make_calls(seed: int, own: list[Reading], numbers: range, pipe: int) -> NoReturn:
    status = 1
    try:
        resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))
        os.dup2(os.open(os.devnull, os.O_RDWR), 0)
        with fuzzed(seed, own) as fuzz:
            for number in numbers:
                os.write(pipe, json.dumps(_made(fuzz, number)).encode() + b"\n")
        status = 0
    finally:
        if status:
            traceback.print_exc()
        os._exit(status)


def _made(fuzz: Fuzz, number: int) -> tuple[str, str]:
    try:
        return fuzz.step(number), ""
    except Failed as failure:
        return "failed", str(failure)
    except Exception:
        return "failed", f"in the fuzz itself: {traceback.format_exc()}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0, help="the same seed makes the same calls")
    parser.add_argument("--first", type=int, default=0, help="number of the first call")
    parser.add_argument("--calls", type=int, default=100_000)
    options = parser.parse_args()
    quieten_libraries()
    import_everything()
    made: Counter[str] = Counter()
    failures = 0
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary).resolve()
        tempfile.tempdir = str(folder)
        os.environ["LEXERGY_CACHE"] = str(folder / "cache")
        own: Any = readings(folder)
        started, next_call, end = time.monotonic(), options.first, options.first + options.calls
        while next_call < end:
            worker = Worker(options.seed, own, next_call, end)
            for kind, failure in worker.told():
                made[kind] += 1
                if failure:
                    failures += 1
                    print(f"\n--- failure {failures}, call {worker.next - 1}\n{failure}", flush=True)
                if made.total() % 1000 == 0:
                    print(f"{made.total()} calls, {time.monotonic() - started:.0f} s: {dict(made)}", flush=True)
            next_call = worker.next
            shutil.rmtree(folder / "cache", ignore_errors=True)
    seconds = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = seconds.ru_utime + seconds.ru_stime
    print(f"{made.total()} calls and inputs in {spent:.0f} CPU-seconds, {failures} failures: {dict(made)}")
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
