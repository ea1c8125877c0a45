"""Time and cost of the paper's study and of a billion texts, on 1, 64 and 1,024 workers: the tables of docs/scale.md.

    python benchmarks/scale_simulation.py
    python benchmarks/ray_overhead.py --json > overhead.json
    python benchmarks/scale_simulation.py --overhead overhead.json
    python benchmarks/scale_simulation.py --hand-over 0.01 --texts-per-shard 16384 --publish 0.05

A discrete-event simulation of `runs.ray_engine`: one driver hands shards to workers, a worker computes one at a time,
the driver alone writes. Trainings are not shards; theirs is a formula. Rates are measured where `Rates` says so.
"""

import argparse
import json
import random
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from itertools import count
from pathlib import Path
from typing import NamedTuple

from lexergy.recipes.loader import load_recipe
from lexergy.recipes.residual import ResidualRecipe
from lexergy.recipes.sections.training import TrainingRecipe

HOUR = 3600.0
STUDY = ("cc-news-12-layers", "cc-news-24-layers", "cc-news-24-layers-bit-med", "book-corpus-12-layers",
         "book-corpus-24-layers")  # fmt: skip
MADE_BEFORE = ("cc-news-24-layers-bit-med",)  # its LM and negatives are those of the recipe before
PAPER_GPUS = 64  # the batch sizes of Table 4 are read as those of a GPU
# Millions of parameters, as Table 1 prints them; RALM runs the base LM too.
PRINTED = {"lm": 203, "masked_lm": 125, "ralm": 203, "balm": 408, "unit": 203, "bit-base": 125, "bit-base-star": 125,
           "bit-large-star": 355, "bit-med": 203}  # fmt: skip


@dataclass(frozen=True)
class Rates:
    """What a worker does in a second, in tokens of a model of 135 M parameters; others in proportion to their size."""

    name: str
    reading: float
    writing: float
    learning: float
    dollars_per_hour: float  # assumed
    exchange: float = 12.5e9  # bytes per second between workers that train together, assumed


# Measured on one core of an AMD EPYC (benchmarks/stage_rates.py, docs/results/sampling-speed.md).
CORE = Rates("core", reading=580, writing=198, learning=81, dollars_per_hour=0.04)
# Assumed: 30 of a V100's 125 TFLOP/s in reading and learning; 256 rows written every 20 ms by 203 M parameters.
V100 = Rates("V100", reading=30e12 / (2 * 135e6), writing=256 / 0.020 * 203 / 135, learning=30e12 / (6 * 135e6),
             dollars_per_hour=2.5)  # fmt: skip

ELECTRIC_TEXTS = 168.0  # per second of a core, 25 tokens, 6 layers 256 wide: measured (docs/results/electric.md)
TOKENS_PER_TEXT = 40  # assumed, 200 bytes
# Measured on a local disk (benchmarks/stage_rates.py): a shard of 1,024 texts read and written, the latter before it is
# forced to the disk; lines of a file kept in shards per second.
READ_TEXTS, WRITE_TEXTS, FORCE, LINES_KEPT = 0.0020, 0.0018, 0.0045, 380_000
READ_SAMPLES = 0.0018  # a shard of 128 samples, measured


@dataclass(frozen=True)
class Cluster:
    """One driver and its workers; seconds."""

    workers: int
    start_up: float = 60.0  # until a worker has its model, assumed
    hand_over: float = 0.001  # of the driver's process for each answer, measured
    per_worker: float = 1.5e-7  # more of it for each worker that is waited for, measured
    spread: float = 0.1  # standard deviation of log(a shard's seconds), assumed
    deaths_per_hour: float = 0.0  # of a worker
    replacement: float = 120.0  # until a dead worker's successor is ready, assumed


@dataclass(frozen=True)
class Shards:
    """A stage of shards: what one costs a worker and the driver, and what the driver does alone before and after."""

    name: str
    number: int
    seconds: float
    read: float = 0.0
    write: float = 0.0063  # measured, forced to the disk
    alone: float = 0.0


class Outcome(NamedTuple):
    """How a stage went; `busy` is the workers' share of useful work, `driver` that of the driver's time in use."""

    seconds: float
    busy: float
    driver: float
    deaths: int


def simulate(stage: Shards, cluster: Cluster, seed: int = 0) -> Outcome:
    """The stage with shards of log-normal durations around its mean."""
    chosen = random.Random(seed)
    centre = -(cluster.spread**2) / 2
    durations = [stage.seconds * chosen.lognormvariate(centre, cluster.spread) for _ in range(stage.number)]
    done = work_through(durations, cluster, stage.read, stage.write, seed)
    seconds = done.seconds + stage.alone
    busy = sum(durations) / (cluster.workers * seconds)
    return Outcome(seconds, busy, (done.driver * done.seconds + stage.alone) / seconds, done.deaths)


def work_through(
    durations: Sequence[float], cluster: Cluster, read: float = 0.0, write: float = 0.0, seed: int = 0
) -> Outcome:
    """Event by event: an answer is taken, the next shard given, and then what came is written."""
    chosen, order = random.Random(seed + 1), count()
    waiting, idle = deque(durations), 0
    # (when, tie, what is answered: None for "ready", the shard's duration, and whether the worker died over it)
    events: list[tuple[float, int, float | None, bool]] = []
    for _ in range(cluster.workers):
        heappush(events, (cluster.start_up, next(order), None, False))
    free, in_use, deaths, left = 0.0, 0.0, 0, len(durations)
    while left:
        when, _, duration, died = heappop(events)
        began = now = max(when, free)
        now += cluster.hand_over + cluster.per_worker * cluster.workers
        if died and duration is not None:
            deaths += 1
            waiting.appendleft(duration)
            heappush(events, (when + cluster.replacement, next(order), None, False))
        else:
            idle += 1
        while idle and waiting:
            idle -= 1
            now += read
            given = waiting.popleft()
            life = chosen.expovariate(cluster.deaths_per_hour / HOUR) if cluster.deaths_per_hour else float("inf")
            heappush(events, (now + min(life, given), next(order), given, life < given))
        if duration is not None and not died:
            now += write
            left -= 1
        free, in_use = now, in_use + now - began
    return Outcome(free, sum(durations) / (cluster.workers * free), in_use / free, deaths)


def training_seconds(
    training: TrainingRecipe, example_seconds: float, parameters: float, workers: int, rates: Rates
) -> float:
    """Of the best number of workers up to those there are; each step they exchange gradients in 4 bytes.

    step = ceil(batch / w) s + 2 (w - 1) / w * 4 P / bandwidth (a ring), and no more workers than examples.
    """
    batch = training.examples_per_step * PAPER_GPUS
    steps = [
        -(-batch // used) * example_seconds + 2 * (used - 1) / used * 4 * parameters / rates.exchange
        for used in {min(workers, batch), *(2**power for power in range(workers.bit_length()) if 2**power <= batch)}
    ]
    return training.max_steps * min(steps)


class Trained(NamedTuple):
    """A training of the paper: whose, how, the tokens of an example, and parameters that only read along (millions)."""

    name: str
    recipe: TrainingRecipe
    tokens: int
    beside: int = 0


def trainings(recipe: ResidualRecipe) -> list[Trained]:
    assert recipe.lm.train is not None
    pair = 2 * (recipe.windows.prefix + recipe.windows.continuation)
    trained = [Trained("lm", recipe.lm.train.training, recipe.lm.train.max_length)]
    if recipe.masked_lm is not None:
        start = "bit-med" if "bit-med" in recipe.energies else "masked_lm"  # as large as the energy that starts from it
        trained.append(Trained(start, recipe.masked_lm.training, recipe.masked_lm.max_length))
    for name, baseline in recipe.baselines.items():
        trained.append(Trained(name, baseline.training, recipe.lm.train.max_length, PRINTED["lm"] * (name == "ralm")))
    return trained + [Trained(name, recipe.energies[name].training, pair) for name in recipe.trained_energies]


def shard_stages(recipe: ResidualRecipe, rates: Rates) -> tuple[Shards, Shards]:
    """Negatives, 128 samples a shard, and perplexity, a window a shard, as `tasks.residual` cuts them."""
    assert recipe.perplexity is not None
    new, per_prefix = recipe.windows.continuation, recipe.negatives.per_prefix
    writing = new * PRINTED["lm"] / 135 / rates.writing  # seconds of a sample
    windows, per_shard = recipe.windows.train + recipe.windows.validation, max(1, 128 // per_prefix)
    number = -(-windows // per_shard)
    # A UniT reads the continuation alone, after a prefix that all samples share; the others read all of it.
    read = {name: new + (name != "unit") * recipe.windows.prefix for name in recipe.trained_energies}
    scoring = sum(tokens * PRINTED[name] / 135 / rates.reading for name, tokens in read.items())
    return (
        Shards("negatives", number, per_shard * per_prefix * writing, alone=number * READ_SAMPLES),
        Shards("perplexity", recipe.windows.test, recipe.perplexity.samples * (writing + scoring)),
    )


def study(name: str, rates: Rates, cluster: Cluster) -> dict[str, float]:
    """Hours of each kind of stage of one of the paper's recipes."""
    recipe = load_recipe(f"paper/{name}", ResidualRecipe)
    shared = ("lm", "negatives") if name in MADE_BEFORE else ()
    learning = sum(
        training_seconds(
            training.recipe,
            training.tokens / 135 * (PRINTED[training.name] / rates.learning + training.beside / rates.reading),
            PRINTED[training.name] * 1e6,
            cluster.workers,
            rates,
        )
        for training in trainings(recipe)
        if training.name not in shared
    )
    stages = {stage.name: stage for stage in shard_stages(recipe, rates) if stage.name not in shared}
    spent = {key: simulate(stage, cluster).seconds / HOUR for key, stage in stages.items()}
    return {"trainings": learning / HOUR, "negatives": 0.0, "perplexity": 0.0} | spent


def billion_texts(rate: float, per_shard: int, publish: float, *, texts: int = 10**9, parts: int = 1) -> Shards:
    """A file scored line by line: its lines are first kept in shards, and each shard is read before it is given.

    `rate`: texts that a worker scores in a second. In `parts`, each has a driver of its own and its share of the lines.
    """
    shards = -(-texts // parts // per_shard)
    thousands = per_shard / 1024
    return Shards(
        "texts",
        shards,
        per_shard / rate,
        read=READ_TEXTS * thousands,
        write=FORCE + WRITE_TEXTS * thousands + publish,
        # Lines are kept before; texts and scores are read when all is done.
        alone=texts / parts / LINES_KEPT + shards * (FORCE + publish + 2 * READ_TEXTS * thousands),
    )


def measured_overhead(measured: dict[str, dict[str, float]]) -> tuple[float, float]:
    """Seconds of a hand-over, and more for each worker: the slope from the fewest to the most that were waited for."""
    waits = {int(workers): seconds for workers, seconds in measured["wait_seconds"].items()}
    fewest, most = min(waits), max(waits)
    slope = (waits[most] - waits[fewest]) / (most - fewest)
    return min(measured["hand_over_seconds"].values()), slope


def hours(value: float) -> str:
    if value < 1:
        return f"{60 * value:.0f} min"
    return (
        f"{value:.1f} h"
        if value < 48
        else f"{value / 24:,.0f} days"
        if value < 24 * 730
        else f"{value / 8766:,.0f} years"
    )


def print_study(workers: Sequence[int], cluster: Cluster) -> None:
    for rates in (CORE, V100):
        print(f"\nThe paper's study, {len(STUDY)} recipes, workers: {rates.name}")
        print("| workers | trainings | negatives | perplexity | all | dollars |\n|---:|---:|---:|---:|---:|---:|")
        for number in workers:
            parts = [study(name, rates, replace(cluster, workers=number)) for name in STUDY]
            sums = {key: sum(part[key] for part in parts) for key in parts[0]}
            total = sum(sums.values())
            cells = [f"{number:,}", *map(hours, sums.values()), hours(total)]
            print(f"| {' | '.join(cells)} | {number * total * rates.dollars_per_hour:,.0f} |")


def print_texts(workers: Sequence[int], cluster: Cluster, per_shard: int, publish: float, parts: int) -> None:
    kinds = {
        "Electric on cores": (ELECTRIC_TEXTS, CORE),
        "SmolLM2-135M on cores": (CORE.reading / TOKENS_PER_TEXT, CORE),
        "SmolLM2-135M on V100s": (V100.reading / TOKENS_PER_TEXT, V100),
    }
    for name, (rate, rates) in kinds.items():
        print(f"\nA billion texts, {name}, {rate:,.1f} texts per second and worker")
        print("| workers | time | workers' work | driver in use | deaths | dollars |\n|---:|---:|---:|---:|---:|---:|")
        for number in workers:
            drivers = min(parts, number)
            texts = billion_texts(rate, per_shard, publish, parts=drivers)
            outcome = simulate(texts, replace(cluster, workers=number // drivers))
            time = outcome.seconds / HOUR
            cells = [f"{number:,}", hours(time), f"{outcome.busy:.0%}", f"{outcome.driver:.0%}", str(outcome.deaths)]
            print(f"| {' | '.join(cells)} | {number * time * rates.dollars_per_hour:,.0f} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 64, 1024])
    parser.add_argument("--hand-over", type=float, default=Cluster.hand_over)
    parser.add_argument("--per-worker", type=float, default=Cluster.per_worker)
    parser.add_argument(
        "--overhead", type=Path, help="the driver's time per shard, as benchmarks/ray_overhead.py --json"
    )
    parser.add_argument("--deaths-per-hour", type=float, default=0.0)
    parser.add_argument("--texts-per-shard", type=int, default=1024)
    parser.add_argument("--publish", type=float, default=0.0, help="seconds of the driver to publish a shard elsewhere")
    parser.add_argument("--parts", type=int, default=1, help="drivers that share workers and texts (--part)")
    parser.add_argument("--only", choices=["study", "texts"])
    options = parser.parse_args()
    hand_over, per_worker = options.hand_over, options.per_worker
    if options.overhead is not None:
        hand_over, per_worker = measured_overhead(json.loads(options.overhead.read_text()))
    cluster = Cluster(1, hand_over=hand_over, per_worker=per_worker, deaths_per_hour=options.deaths_per_hour)
    if options.only != "texts":
        print_study(options.workers, cluster)
    if options.only != "study":
        print_texts(options.workers, cluster, options.texts_per_shard, options.publish, options.parts)


if __name__ == "__main__":
    main()
