"""What the joint model's perplexity is at most when SMC draws its texts, beside importance sampling of as many samples.

A run of SMC in which one of K particles keeps a window's own text bounds the density of what K particles write
(docs/equations.md, "Sequential Monte Carlo"). Importance sampling's bound from K candidates is the run's stored one, on
the same windows. After every few windows it is told what all so far give: each bound with its error over documents, and
by how many nats per token SMC's lies below importance sampling's, paired by window.
"""

import argparse
from collections import Counter
from collections.abc import Hashable, Sequence
from pathlib import Path

import torch
from timing import cpu_seconds
from torch import Tensor

from lexergy.core.estimation.bootstrap import bootstrap_std_error
from lexergy.core.estimation.perplexity import WindowEstimates
from lexergy.core.estimation.smc import Resampling
from lexergy.data.windows import Windows
from lexergy.models.joint.model import ResidualEBM
from lexergy.models.joint.smc import run_populations
from lexergy.runs.records import load_run
from lexergy.tasks.residual.context import RunContext

WINDOWS_AT_ONCE = 8


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--energy", default="energy")
    parser.add_argument("--fitted-on", type=int, default=32, help="validation prefixes of the twist, 16 samples each")
    parser.add_argument("--windows", type=int, help="the first of them, document by document in turn; all unless given")
    parser.add_argument("--ways", nargs="*", help="some of those printed; all unless given")
    arguments = parser.parse_args()
    result = load_run(arguments.run)
    estimate = result.energies[arguments.energy].perplexity
    context = RunContext(result.recipe, arguments.run)
    windows, joint = context.test_windows, ResidualEBM(context.lm, context.energy(arguments.energy))
    fitted_on = context.windows["validation"].prefixes[: arguments.fitted_on]
    twist = joint.fit_twist(fitted_on, length=windows.continuation_length, num_samples=16, seed=1)
    ways = {
        "t / T, every 4 below .5": Resampling(),
        "fitted twist, every 2 below .8": Resampling(2, 0.8, twist),
        "fitted twist, every token": Resampling(1, 1.0, twist),
    }
    plain = estimate.windows
    assert list(plain.documents) == list(windows.document_ids)
    order = round_robin(plain.documents)[: arguments.windows]
    for name in arguments.ways or ways:
        found: list[Tensor] = []
        spent = 0.0
        for start in range(0, len(order), WINDOWS_AT_ONCE):
            ids = order[start : start + WINDOWS_AT_ONCE]
            seconds, gain = bounded(
                joint, windows.select(ids), ids, ways[name], estimate.num_samples, plain.energy[ids]
            )
            spent += seconds
            found.append(gain)
            done = order[: start + len(ids)]
            print(f"SMC, {name}, {spent:.0f} s of CPU, {len(done)} windows")
            tell(plain, done, torch.cat(found), windows.continuation_length)


def round_robin(documents: Sequence[Hashable]) -> list[int]:
    """The first window of each document, then the second ones: the first so many are of all documents."""
    seen: Counter[Hashable] = Counter()
    turns = []
    for document in documents:
        turns.append(seen[document])
        seen[document] += 1
    return sorted(range(len(turns)), key=lambda window: turns[window])


def bounded(
    joint: ResidualEBM, windows: Windows, ids: list[int], resampling: Resampling, particles: int, energy: Tensor
) -> tuple[float, Tensor]:
    """CPU seconds, and what each window gains at least: -(E + log Z^) of a run that keeps its text."""
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
        gains.append(-(energy + population.log_z_estimate[:, 0]))

    spent = cpu_seconds(run)
    return spent, gains[0]


def tell(plain: WindowEstimates, done: list[int], gain: Tensor, length: int) -> None:  # (N,)
    """The bounds on these windows, what they gain over the LM, and SMC's over importance sampling's."""
    base, own = plain.base_log_prob[done] / length, plain.gain[done] / length
    gain, documents = gain / length, [plain.documents[window] for window in done]
    for name, part in (("LM", torch.zeros_like(own)), ("importance sampling", own), ("SMC", gain)):
        error = bootstrap_std_error(
            base + part, 0, groups=documents, statistic=lambda drawn: torch.exp(-drawn.mean(-1))
        )
        print(f"  {name}: at most {float(torch.exp(-(base + part).mean())):.2f} +- {error:.2f}")
    for name, part in (("importance sampling over the LM", own), ("SMC over importance sampling", gain - own)):
        error = bootstrap_std_error(part, 0, groups=documents)
        print(f"  {name}: {float(part.mean()):.4f} +- {error:.4f} nats per token", flush=True)


if __name__ == "__main__":
    with torch.no_grad():
        main()
