"""log Z of a run's test windows by sequential Monte Carlo beside importance sampling, with as many samples.

Both draw the same numbers: an estimate is of K samples, and SMC resamples them on the way, by t / T times the energy so
far and by a fitted twist. Printed is the variance of log Z^ over M estimates, its mean over windows, and CPU seconds.
"""

import argparse
from pathlib import Path

import torch
from timing import cpu_seconds

from lexergy.core.estimation import partition
from lexergy.core.estimation.smc import Resampling
from lexergy.models.energies import SumEnergy
from lexergy.models.joint.model import ResidualEBM
from lexergy.models.joint.smc import ParticleFacts, run_populations
from lexergy.runs.records import load_run
from lexergy.tasks.residual.context import RunContext


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--energy", default="energy")
    parser.add_argument("--scale", type=float, default=1.0, help="times the energy")
    parser.add_argument("--windows", type=int, default=4)
    parser.add_argument("--particles", type=int, default=16)
    parser.add_argument("--runs", type=int, default=8)
    parser.add_argument("--every", type=int, default=4)
    parser.add_argument("--below", type=float, default=0.5)
    arguments = parser.parse_args()
    context = RunContext(load_run(arguments.run).recipe, arguments.run)
    windows = context.some_test_windows(arguments.windows)
    prefix, length = windows.tokens[:, : windows.prefix_length], windows.continuations.shape[1]
    energy = SumEnergy.of([context.energy(arguments.energy)], [arguments.scale])
    joint = ResidualEBM(context.lm, energy)
    twist = joint.fit_twist(context.windows["validation"].tokens[:2, : windows.prefix_length], length=length)
    ways = {
        "importance sampling": Resampling(below=0.0),
        "SMC, t / T": Resampling(arguments.every, arguments.below),
        "SMC, fitted twist": Resampling(arguments.every, arguments.below, twist),
    }
    print(f"{len(prefix)} windows, {arguments.runs} estimates of {arguments.particles} samples of {length} tokens")
    facts: dict[str, ParticleFacts] = {}
    for name, resampling in ways.items():

        def run(name: str = name, resampling: Resampling = resampling) -> None:
            facts[name] = ParticleFacts.of(
                run_populations(
                    joint,
                    prefix,
                    num_particles=arguments.particles,
                    num_runs=arguments.runs,
                    length=length,
                    seed=0,
                    resampling=resampling,
                )
            )

        spent = cpu_seconds(run)
        own = facts[name]
        variance = own.log_z.var(dim=1).mean()
        first = facts["importance sampling"].log_z.var(dim=1).mean()
        print(
            f"{name:20s} variance {variance:6.3f} (1 / {first / variance:.1f}); log Z by Theorem 2 "
            f"{partition.lower_bound(own.log_z).mean():.3f} to {partition.upper_bound(own.log_z).mean():.3f}; ESS "
            f"{own.ess.mean():.1f}, {own.num_ancestors.double().mean():.1f} ancestors, "
            f"{own.num_resamplings.double().mean():.1f} resamplings; {spent:.0f} s of CPU",
            flush=True,
        )
    print("slopes of the twist:", [round(slope, 2) for slope in twist.slope[3::4].tolist()])


if __name__ == "__main__":
    with torch.no_grad():
        main()
