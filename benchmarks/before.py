"""Stages of a run on this checkout beside an older one: negatives, pairs, log Z, states and log-probabilities of texts.

    git worktree add ../before ccae766       # the last commit before OpenVINO computed the sampler's steps
    python benchmarks/before.py ../before [--rounds 3] [--stages negatives]
    git -C ../before checkout 071c042        # the last one in which each sample was fed by itself
    python benchmarks/before.py ../before --stages "of a prefix"
    python benchmarks/before.py ../before --quickstart     # its `lexergy quickstart` there and here; and twice as much

One process for each checkout, the same environment, SmolLM2-135M, prefixes of 64 tokens and 32 new ones, as in the
quickstart. The two take turns; ratios are taken within a round.
"""

import argparse
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from timing import CLOCKS, Others, seconds, with_range
from workers import Worker

PREFIX, NEW, LONG, LAYERS = 64, 32, 40, (8, 16, 24, 30)
NEGATIVES, READ, WINDOWS, SAMPLES = 256, 64, 8, 32
RECIPE = ["run", "energy-alone"]
HERE = Path(__file__).resolve().parents[1]


def stages() -> tuple[Any, dict[str, tuple[int, Callable[[int], object]]]]:
    """The LM, and what each stage of a run asks of it, by a seed, and of how many new tokens that is."""
    from lexergy import CausalLM, ResidualEBM, StatesEnergy
    from lexergy.data.corpora import load_corpus

    lm = CausalLM.from_pretrained("smollm2-135m")
    energy = StatesEnergy.for_lm(lm, LAYERS)
    joint = ResidualEBM(lm, energy)
    text = lm.encode(" ".join(document.text for document in load_corpus("sotu")[:24]))
    rows = text[: NEGATIVES * (PREFIX + NEW)].view(NEGATIVES, -1)
    prefixes, read = rows[:, :PREFIX], rows[:READ]

    def continued(num_samples: int, **options: Any) -> tuple[int, Callable[[int], object]]:
        """So many texts of one prefix, another with each seed."""
        count = num_samples * LONG
        return count, lambda seed: lm.sample(
            prefixes[seed : seed + 1], num_samples=num_samples, max_new_tokens=LONG, seed=seed, **options
        )

    def pairs(seed: int) -> object:
        """As the stage `negatives` of a run makes them, in each checkout."""
        own = lm.on_one_runtime(READ) if hasattr(lm, "on_one_runtime") else lm
        samples = own.sample(read[:, :PREFIX], num_samples=1, max_new_tokens=NEW, seed=seed, features=energy.features)
        return samples, own.state_features(read, prefix_length=PREFIX, features=energy.features)

    return lm, {
        "negatives, one per prefix, 256 prefixes": (
            NEGATIVES * NEW,
            lambda seed: lm.sample(prefixes, num_samples=1, max_new_tokens=NEW, seed=seed, features=energy.features),
        ),
        "64 samples of a prefix, top-k 10": continued(64, top_k=10),
        "256 samples of a prefix, top-k 10": continued(256, top_k=10),
        "256 samples of a prefix": continued(256),
        "64 texts of a prefix up to a full stop": continued(64, stop=["."]),
        "64 pairs of people's text and a negative, with states": (READ * NEW, pairs),
        "log Z, 8 windows, 32 samples each": (
            WINDOWS * SAMPLES * NEW,
            lambda seed: joint.log_z(prefixes[:WINDOWS], length=NEW, num_samples=SAMPLES, seed=seed),
        ),
        "states of 64 people's texts": (
            READ * NEW,
            lambda seed: lm.state_features(read, prefix_length=PREFIX, features=energy.features),
        ),
        "log-probabilities of 64 people's texts": (
            READ * NEW,
            lambda seed: lm.log_prob(read, prefix_length=PREFIX),
        ),
    }


def work(clock: str) -> None:
    """A worker: says which stages there are; to each line with a stage and a seed it answers with seconds."""
    from lexergy.cli.threads import spin_shortly

    spin_shortly()
    if importlib.util.find_spec("lexergy.cli.memory"):  # what the command line does, each checkout its own
        importlib.import_module("lexergy.cli.memory").keep_freed_memory()
    lm, known = stages()
    print(json.dumps({name: tokens for name, (tokens, _) in known.items()}), flush=True)
    for line in sys.stdin:
        name, seed = json.loads(line)
        lm.forget_prefix()  # each call pays for its own prefill
        print(CLOCKS[clock](lambda: known[name][1](seed)), flush=True)  # noqa: B023


class Checkout:
    """A process that runs stages by the code of a checkout."""

    def __init__(self, folder: Path, clock: str) -> None:
        self.worker = Worker([__file__, "--worker", "--clock", clock], environment(folder))
        self.stages: dict[str, int] = json.loads(self.worker.greeting)

    def seconds(self, stage: str, seed: int) -> float:
        return float(self.worker.ask(json.dumps([stage, seed])))


def environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(folder.resolve() / "src")}


def compare(before: Path, wanted: str, rounds: int, clock: str) -> None:
    now, then = Checkout(HERE, clock), Checkout(before, clock)
    others = Others()
    unit = "second" if clock == "wall" else "CPU-second"
    print(f"| | tokens per {unit} now | before | faster by |\n|---|---:|---:|---:|")
    for stage, tokens in now.stages.items():
        if wanted not in stage:
            continue
        for checkout in (now, then):
            checkout.seconds(stage, rounds)  # what is compiled or packed once
        taken = [(now.seconds(stage, seed), then.seconds(stage, seed)) for seed in range(rounds)]
        rates = [f"{tokens / statistics.median(column):,.0f}" for column in zip(*taken, strict=True)]
        ratios = [old / new for new, old in taken]
        print(f"| {stage} | {' | '.join(rates)} | {with_range(ratios)} |", flush=True)
    for checkout in (now, then):
        checkout.worker.end()
    print(f"\nMedians of {rounds} rounds; other processes took {others.share():.0%} of the machine.")


def quickstart(before: Path) -> None:
    """What `lexergy quickstart` ran there is `energy-alone` here; that with twice the pairs and samples; today's.

    With each time, what the joint model of this checkout is at most.
    """
    with tempfile.TemporaryDirectory() as folder:
        twice = Path(folder) / "twice.yaml"
        twice.write_text(twice_as_much((HERE / "src/lexergy/recipes/library/energy-alone.yaml").read_text()))
        runs = {
            "now": (HERE, RECIPE),
            "twice": (HERE, ["run", str(twice)]),
            "before": (before, ["quickstart"]),
            "today": (HERE, ["quickstart"]),
        }
        taken = {name: timed_run(*what, Path(folder) / name) for name, what in runs.items()}
        for name, spent in taken.items():
            print(f"{name}: {spent:.0f} s, {spent / taken['before']:.0%} of the time before{gain(Path(folder) / name)}")


def twice_as_much(recipe: str) -> str:
    """Of pairs to fit on and to choose by, and of the samples of a test window."""
    for name, number in (("train", 520), ("validation", 96), ("samples", 32)):
        line = f"  {name}: {number}\n"
        if recipe.count(line) != 1:
            raise ValueError(f"the recipe has no line {line.strip()!r}; expected that of `energy-alone`.")
        recipe = recipe.replace(line, f"  {name}: {2 * number}\n")
    return recipe.replace("name: energy-alone", "name: energy-twice")


def timed_run(folder: Path, what: list[str], out: Path) -> float:
    command = [sys.executable, "-m", "lexergy", *what, "--out", str(out)]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return seconds(lambda: subprocess.run(command, env=environment(folder), check=True, **quiet))


def gain(folder: Path) -> str:
    """What the run's joint model is at most, where this checkout can tell."""
    from lexergy.errors import LexergyError
    from lexergy.runs.records import load_run

    try:
        estimate = load_run(folder).energies["energy"].perplexity
        return f"; at most {estimate.bound:.2f} where the LM is {estimate.base:.2f}"
    except (LexergyError, KeyError, TypeError, ValueError):
        return ""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("before", type=Path, nargs="?", help="folder of another checkout")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--stages", default="", help="only those whose name has this")
    parser.add_argument("--clock", choices=list(CLOCKS), default="wall", help="cpu: where others work too")
    parser.add_argument("--quickstart", action="store_true")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.before is None and not options.worker:
        parser.error("no folder of another checkout; `git worktree add ../before ccae766` makes one")
    if options.worker:
        work(options.clock)
    elif options.quickstart:
        quickstart(options.before)
    else:
        compare(options.before, options.stages, options.rounds, options.clock)


if __name__ == "__main__":
    main()
