"""Sampling many continuations of one prefix: Lexergy beside transformers, CTranslate2 and OpenVINO, in one run.

SmolLM2-135M-Instruct from one Q4_1 file, prefix 120, 40 new tokens. Prints the tables of
docs/results/sampling-speed.md; that of memory is `peak_memory.py`'s.
"""

import argparse
import json
import os
import statistics
import sys
from collections.abc import Callable
from typing import NamedTuple, get_args

import psutil
import torch
from engines import ENGINES, MODEL, NEW, Sampler, installed
from equal_work import work_table
from step_profile import profile_table
from timing import cpu_seconds, seconds, with_range
from workers import Worker

from lexergy import CausalLM
from lexergy.data.corpora import load_corpus
from lexergy.models.causal.runtimes import openvino_steps
from lexergy.models.causal.runtimes.openvino_steps import computes_in
from lexergy.models.energies import TransformerEnergy, as_energy
from lexergy.recipes.sections.runtime import Precision

PREFIX, TOP_K = 120, 10
# Else glibc gives large tensors back to the system at each step: two thirds of CTranslate2's time were page faults.
ALLOCATOR = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(2**40), "MALLOC_TOP_PAD_": str(2**30)}


def loaded() -> tuple[CausalLM, torch.Tensor]:
    lm = CausalLM.from_pretrained(MODEL)
    return lm, lm.encode(load_corpus("sotu")[0].text)[None, :PREFIX]


class Measured(NamedTuple):
    """One call of a sampler."""

    seconds: float
    cpu_seconds: float
    others: float  # share of the machine that other processes took meanwhile


class Side:
    """An engine in a process of its own."""

    def __init__(self, engine: str, top_k: int, threads: int) -> None:
        self.engine = engine
        arguments = [__file__, "--one", engine, "--top-k", str(top_k)]
        self._worker = Worker(arguments, os.environ | ALLOCATOR | {"OMP_NUM_THREADS": str(threads)})

    def measured(self, n: int) -> Measured:
        result = Measured(*json.loads(self._worker.ask(str(n))))
        print(self.engine, n, tuple(round(value, 2) for value in result), file=sys.stderr, flush=True)
        return result

    def end(self) -> None:
        self._worker.end()


def measure_one(engine: str, top_k: int) -> None:
    """In a process of its own, as it is when it has drawn as many samples of a prefix for a minute."""
    openvino_steps.WORTH_FIXING = 0
    sampler = ENGINES[engine].build(*loaded())
    sampler(2, top_k or None)
    print("ready", flush=True)
    for line in sys.stdin:
        print(json.dumps(_measure(sampler, int(line), top_k or None)), flush=True)


def _measure(sampler: Sampler, n: int, top_k: int | None) -> Measured:
    spent: list[float] = []
    idle = _idle_seconds()
    wall = seconds(lambda: spent.append(cpu_seconds(lambda: sampler(n, top_k))))
    available = wall * (psutil.cpu_count() or 1)
    others = (available - (_idle_seconds() - idle) - spent[0]) / available
    return Measured(wall, spent[0], others)


def _idle_seconds() -> float:
    times = psutil.cpu_times()
    return times.idle + times.iowait


def speed_table(arguments: argparse.Namespace) -> list[str]:
    """All engines take turns at each number of samples; medians over rounds, ratios within a round."""
    sides = [Side(name, arguments.top_k, arguments.threads) for name in arguments.engines]
    wall = arguments.clock == "wall"
    lines = [f"| samples | engine | tokens per {'second' if wall else 'CPU-second'} | times {sides[0].engine}'s |"]
    lines.append("|---:|---|---:|---:|")
    others = []
    for n in arguments.samples:
        for side in sides:
            side.measured(n)  # memory and kernels for so many
        rounds = [[side.measured(n) for side in sides] for _ in range(arguments.rounds)]
        for place, side in enumerate(sides):
            taken = [_clock(turn[place], wall) for turn in rounds]
            ratios = [_clock(turn[0], wall) / own for turn, own in zip(rounds, taken, strict=True)]
            lines.append(f"| {n} | {side.engine} | {n * NEW / statistics.median(taken):.0f} | {with_range(ratios)} |")
        others += [result.others for turn in rounds for result in turn]
    for side in sides:
        side.end()
    lines += ["", f"Other processes took {statistics.median(others):.0%} of the machine, at most {max(others):.0%}."]
    return lines


def _clock(measured: Measured, wall: bool) -> float:
    return measured.seconds if wall else measured.cpu_seconds


def energy_line(arguments: argparse.Namespace) -> list[str]:
    """Scoring candidates of one prefix with a UniT energy: sharing the prefix, and as whole sequences."""
    lm, prefix = loaded()
    n = max(arguments.samples)
    unit = as_energy(TransformerEnergy.from_causal_lm(lm.model).eval(), lm)
    continuations = lm.sample(prefix, num_samples=n, max_new_tokens=NEW, top_k=TOP_K).tokens
    rows = torch.cat((prefix.expand(n, -1), continuations[0]), 1)

    @torch.inference_mode()
    def whole() -> object:
        return [lm.model.base_model(input_ids=part).last_hidden_state.mean(1) for part in rows.split(32)]

    with torch.inference_mode():
        unit.score(prefix, continuations[:, :8])
        shared = min(seconds(lambda: unit.score(prefix, continuations)) for _ in range(2))
    apart = min(seconds(whole) for _ in range(2))
    return [f"UniT energies of {n} candidates: {shared:.2f} s sharing the prefix, {apart:.2f} s as whole sequences."]


def work_lines(arguments: argparse.Namespace) -> list[str]:
    return work_table(arguments.engines, *loaded(), max(arguments.samples), arguments.top_k or TOP_K)


def profile_lines(arguments: argparse.Namespace) -> list[str]:
    torch.set_num_threads(arguments.threads)
    lm, prefix = loaded()
    precisions = filter(computes_in, get_args(Precision))
    lms = (CausalLM(lm.model, lm.tokenizer, precision=precision) for precision in precisions)
    return [line for own in lms for line in profile_table(own, prefix, arguments.top_k or None)]


PARTS: dict[str, Callable[[argparse.Namespace], list[str]]] = {
    "speed": speed_table,
    "work": work_lines,
    "energy": energy_line,
    "profile": profile_lines,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=list(PARTS), help="one part instead of all")
    parser.add_argument("--samples", type=int, nargs="+", default=[1, 2, 8, 64, 256])
    parser.add_argument(
        "--engines",
        nargs="+",
        choices=list(ENGINES),
        default=installed(),
        help="the first is what others are compared with",
    )
    parser.add_argument("--top-k", type=int, default=TOP_K, help="0: the whole distribution")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument(
        "--clock", choices=["wall", "cpu"], default="wall", help="cpu: where others use the machine too"
    )
    parser.add_argument("--one", choices=list(ENGINES), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        measure_one(arguments.one, arguments.top_k)
        return
    for name in [arguments.only] if arguments.only else PARTS:
        print("\n".join(PARTS[name](arguments)), flush=True)


if __name__ == "__main__":
    main()
