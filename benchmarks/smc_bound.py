"""What the joint model's perplexity is at most when SMC draws its texts, beside importance sampling of as many samples.

A run of SMC in which one of K particles keeps a window's own text bounds the density of what K particles write
(docs/equations.md, "Sequential Monte Carlo"); without resampling it is the bound of K candidates. Both are made of the
same random numbers. After every few windows it is told what all so far give: each bound with its error over documents,
and by how many nats per token SMC's lies below importance sampling's, paired by window.
"""

import argparse
from collections import Counter
from collections.abc import Hashable, Sequence
from pathlib import Path

import torch
from timing import cpu_seconds
from torch import Tensor

from lexergy.core.estimation.bootstrap import bootstrap_std_error
from lexergy.core.estimation.smc import Resampling
from lexergy.data.windows import Windows
from lexergy.models.joint.model import ResidualEBM
from lexergy.models.joint.smc import run_populations
from lexergy.runs.records import load_run
from lexergy.tasks.residual.context import RunContext

WINDOWS_AT_ONCE = 8
IMPORTANCE = "importance sampling"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--energy", default="energy")
    parser.add_argument("--particles", type=int, default=32)
    parser.add_argument("--fitted-on", type=int, default=32, help="validation prefixes of the twist, 16 samples each")
    parser.add_argument("--windows", type=int, help="the first of them, document by document in turn; all unless given")
    parser.add_argument("--ways", nargs="*", help="some of those printed; all unless given")
    arguments = parser.parse_args()
    context = RunContext(load_run(arguments.run).recipe, arguments.run)
    windows, joint = context.test_windows, ResidualEBM(context.lm, context.energy(arguments.energy))
    fitted_on = context.windows["validation"].prefixes[: arguments.fitted_on]
    settings = {"length": windows.continuation_length, "num_samples": 16}
    twist = joint.fit_twist(fitted_on, **settings, seed=1)
    tilt = joint.fit_tilt(fitted_on, **settings, seed=1)
    tilted = Resampling(1, 1.0, joint.fit_twist(fitted_on, **settings, seed=2, tilt=tilt), tilt)
    ways = {
        "SMC, t / T, every 4 below .5": Resampling(),
        "SMC, fitted twist, every 2 below .8": Resampling(2, 0.8, twist),
        "SMC, fitted twist, every token": Resampling(1, 1.0, twist),
        "SMC, fitted twist and tilt, every token": tilted,
    }
    chosen = {IMPORTANCE: Resampling(below=0.0)} | {name: ways[name] for name in arguments.ways or ways}
    order = round_robin(windows.document_ids)[: arguments.windows]
    gains: dict[str, Tensor] = {name: torch.empty(0, dtype=torch.double) for name in chosen}  # (n,) so far
    spent = dict.fromkeys(chosen, 0.0)
    base = torch.empty(0, dtype=torch.double)  # (n,)
    for start in range(0, len(order), WINDOWS_AT_ONCE):
        ids = order[start : start + WINDOWS_AT_ONCE]
        some = windows.select(ids)
        base = torch.cat([base, joint.lm.log_prob(some.tokens, prefix_length=some.prefix_length).double()])
        for name, resampling in chosen.items():
            gain, seconds = least_gain(joint, some, ids, resampling, arguments.particles)
            gains[name], spent[name] = torch.cat([gains[name], gain]), spent[name] + seconds
        documents = [windows.document_ids[window] for window in order[: len(base)]]
        tell(base, gains, spent, documents, windows.continuation_length)


def round_robin(documents: Sequence[Hashable]) -> list[int]:
    """The first window of each document, then the second ones: the first so many are of all documents."""
    seen: Counter[Hashable] = Counter()
    turns = []
    for document in documents:
        turns.append(seen[document])
        seen[document] += 1
    return sorted(range(len(turns)), key=lambda window: turns[window])


def least_gain(
    joint: ResidualEBM, windows: Windows, ids: list[int], resampling: Resampling, particles: int
) -> tuple[Tensor, float]:
    """What each window gains at least, -(E + log Z^) of a run that keeps its text (B,), and CPU seconds."""
    gains: list[Tensor] = []

    def run() -> None:
        population = run_populations(
            joint,
            windows.prefixes,
            num_particles=particles,
            num_runs=1,
            length=windows.continuation_length,
            seed=0,
            prefix_ids=ids,
            kept=windows.continuations,
            resampling=resampling,
        )
        energy = joint.score_texts(windows.prefixes, windows.continuations).double()
        gains.append(-(energy + population.log_z_estimate[:, 0]))

    seconds = cpu_seconds(run)
    return gains[0], seconds


def tell(
    base: Tensor,  # (n,)
    gains: dict[str, Tensor],  # (n,) each
    spent: dict[str, float],
    documents: list[Hashable],  # n
    length: int,
) -> None:
    """Each bound, what it gains over the LM, and over importance sampling's."""
    print(f"{len(base)} windows of {len(set(documents))} documents; the LM {float(perplexity(base / length)):.2f}")
    for name, gain in gains.items():
        bound = (base + gain) / length
        error = bootstrap_std_error(bound, 0, groups=documents, statistic=perplexity)
        over = [
            f"{float(part.mean()):.4f} +- {bootstrap_std_error(part, 0, groups=documents):.4f}"
            for part in (gain / length, (gain - gains[IMPORTANCE]) / length)
        ]
        print(
            f"  {name}: at most {float(perplexity(bound)):.2f} +- {error:.2f}; nats per token over the LM {over[0]}, "
            f"over importance sampling {over[1]}; {spent[name]:.0f} s of CPU",
            flush=True,
        )


def perplexity(log_prob_per_token: Tensor) -> Tensor:  # (..., n) -> (...)
    return torch.exp(-log_prob_per_token.mean(-1))


if __name__ == "__main__":
    with torch.no_grad():
        main()
