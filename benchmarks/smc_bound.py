"""What the joint model's perplexity is at most when SMC draws its texts, beside importance sampling of as many samples.

A run of SMC in which one of K particles keeps a window's own text bounds the density of what K particles write
(docs/equations.md, "Sequential Monte Carlo"). Importance sampling's bound from K candidates is the run's stored one, on
the same windows. Printed is each bound with its error over documents, and by how many nats per token it lies below
importance sampling's, paired by window.
"""

import argparse
from pathlib import Path
from typing import Any

import torch
from timing import cpu_seconds
from torch import Tensor

from lexergy.core.estimation.bootstrap import bootstrap_std_error
from lexergy.core.estimation.smc import Resampling
from lexergy.models.joint.model import ResidualEBM
from lexergy.models.joint.smc import run_populations
from lexergy.runs.records import load_run
from lexergy.tasks.residual.context import RunContext


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--energy", default="energy")
    parser.add_argument("--fitted-on", type=int, default=32, help="validation prefixes of the twist, 16 samples each")
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
    plain, documents = estimate.windows, list(estimate.windows.documents)
    assert documents == list(windows.document_ids)
    base, length = plain.base_log_prob, windows.continuation_length
    tell("importance sampling", base, plain.gain, plain.gain, documents, length)
    for name in arguments.ways or ways:
        gains: list[Tensor] = []

        def run(resampling: Resampling = ways[name], gains: list[Tensor] = gains) -> None:
            settings: dict[str, Any] = {"length": length, "resampling": resampling, "seed": result.recipe.seed}
            population = run_populations(
                joint,
                windows.prefixes,
                num_particles=estimate.num_samples,
                num_runs=1,
                kept=windows.continuations,
                **settings,
            )
            gains.append(-(plain.energy + population.log_z_estimate[:, 0]))
            print(f"{float(population.num_ancestors.double().mean()):.1f} ancestors")

        spent = cpu_seconds(run)
        tell(f"SMC, {name} ({spent:.0f} s of CPU)", base, gains[0], plain.gain, documents, length)


def tell(name: str, base: Tensor, gain: Tensor, plain: Tensor, documents: list[Any], length: int) -> None:  # (B,) each
    """The bound, and what it gains over the LM and over importance sampling."""
    per_token, more = (base + gain) / length, (gain - plain) / length
    error = bootstrap_std_error(per_token, 0, groups=documents, statistic=lambda part: torch.exp(-part.mean(-1)))
    over = [
        f"{float(part.mean()):.4f} +- {bootstrap_std_error(part, 0, groups=documents):.4f}"
        for part in (gain / length, more)
    ]
    print(
        f"{name}: at most {float(torch.exp(-per_token.mean())):.2f} +- {error:.2f}; {over[0]} nats per token over the "
        f"LM, {over[1]} over importance sampling",
        flush=True,
    )


if __name__ == "__main__":
    with torch.no_grad():
        main()
