"""log Z of a run's test windows by sequential Monte Carlo beside importance sampling, with as many samples.

Both draw the same numbers: an estimate is of K samples, and SMC resamples them on the way, by t / T times the energy so
far, by a fitted twist, and with tokens drawn by a fitted tilt. Each window has as many samples for every K, so that
fewer estimates are of more samples, unless `--samples` has a number for each K. Windows are taken document by document
in turn, so that up to the number of documents each is of another one. Printed is the variance of log Z^ over estimates,
its mean over windows, by how much that is less than importance sampling's of K samples, and of as many samples as the
same CPU time buys (95 % intervals over windows), the same for the squared error from the best estimate that there is,
and CPU seconds. Importance sampling's samples are one pool for every K; how they are shared out to estimates is left to
chance, and its variance is the mean over many ways to do so, each of which is unbiased: estimates of one way have no
sample in common. First comes what the twist knows of the energy, and which ratio that allows. After every few windows
it is told what all so far give.
"""

import argparse
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import torch
from smc_bound import WINDOWS_AT_ONCE, round_robin
from timing import cpu_seconds
from torch import Tensor

from lexergy.cli.memory import keep_freed_memory
from lexergy.core.estimation import partition
from lexergy.core.estimation.smc import Population, Resampling, Twist, fit_twist, resample
from lexergy.models.causal.batches import joined
from lexergy.models.energies import SumEnergy
from lexergy.models.joint.model import ResidualEBM
from lexergy.models.joint.smc import EnergiesSeen, ParticleFacts, energies_while_written, run_populations
from lexergy.models.joint.tilts import fit_tilt
from lexergy.runs.records import load_run
from lexergy.tasks.residual.context import RunContext

IMPORTANCE = "importance sampling"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--energy", default="energy")
    parser.add_argument("--scale", type=float, default=1.0, help="times the energy")
    parser.add_argument("--windows", type=int, default=4)
    parser.add_argument("--particles", type=int, nargs="+", default=[16], help="K, each in turn")
    parser.add_argument("--samples", type=int, nargs="+", default=[128], help="of each window, or that for each K")
    parser.add_argument("--plain-samples", type=int, help="those of importance sampling; as many unless given")
    parser.add_argument("--every", type=int, default=2)
    parser.add_argument("--below", type=float, default=0.8)
    parser.add_argument("--fitted-on", type=int, default=32, help="validation prefixes, 16 samples each")
    parser.add_argument("--ways", nargs="*", help="some of those printed; all unless given")
    parser.add_argument("--keep", type=Path, help="a file for all log-weights, as torch saves them")
    arguments = parser.parse_args()
    samples_of = dict(zip(arguments.particles, arguments.samples * len(arguments.particles), strict=False))
    context = RunContext(load_run(arguments.run).recipe, arguments.run)
    windows = context.test_windows
    windows = windows.select(round_robin(windows.document_ids)[: arguments.windows])
    prefix, length = windows.tokens[:, : windows.prefix_length], windows.continuations.shape[1]
    energy = SumEnergy.of([context.energy(arguments.energy)], [arguments.scale])
    joint = ResidualEBM(context.lm, energy)
    fitted_on = context.windows["validation"].tokens[: arguments.fitted_on, : windows.prefix_length]
    settings: dict[str, Any] = {"length": length, "num_samples": 16, "seed": 1, "prefix_ids": range(len(fitted_on))}
    often = (arguments.every, arguments.below)
    ways = {IMPORTANCE: Resampling(below=0.0), "SMC, t / T": Resampling(*often)}
    if not arguments.ways or "SMC, twist" in arguments.ways:
        seen = energies_while_written(joint, fitted_on, **settings)
        twist = fit_twist(*seen)
        tell_what_is_known(twist, seen, arguments)
        ways["SMC, twist"] = Resampling(*often, twist)
    if not arguments.ways or any("tilt" in way for way in arguments.ways):
        tilt, explained = fit_tilt(joint, fitted_on, **settings)
        drawn_by_it = energies_while_written(joint, fitted_on, tilt=tilt, **settings | {"seed": 2})
        weights = (drawn_by_it.log_ratio[..., -1] - drawn_by_it.final)[..., None]  # (B, n, 1)
        print(f"the tilt explains {explained:.0%} of what tokens add; log-weights vary by {float(within(weights)):.2f}")
        ways["SMC, twist and tilt"] = Resampling(*often, fit_twist(*drawn_by_it), tilt)
        ways["tilt alone"] = Resampling(below=0.0, tilt=tilt)
    documents = len(set(windows.document_ids))
    print(f"{len(prefix)} windows of {documents} documents, texts of {length} tokens")
    drawn: dict[tuple[str, int], Population] = {}
    spent: Counter[tuple[str, int]] = Counter()
    for start in range(0, len(prefix), WINDOWS_AT_ONCE):
        ids = range(start, min(start + WINDOWS_AT_ONCE, len(prefix)))
        for particles, name in product(arguments.particles, arguments.ways or ways):
            plain = name == IMPORTANCE
            if plain and particles != arguments.particles[0]:
                continue
            samples = arguments.plain_samples if plain and arguments.plain_samples else samples_of[particles]
            runs = (particles, samples // particles)
            population, seconds = timed(joint, prefix[ids.start : ids.stop], ids, ways[name], *runs, length)
            before = drawn.get((name, particles))
            drawn[name, particles] = population if before is None else joined([before, population], 0)
            spent[name, particles] += seconds
        tell(drawn, spent, arguments.particles)
        if arguments.keep:
            weights = {key: population.log_weights for key, population in drawn.items()}
            torch.save({"log_weights": weights, "seconds": dict(spent)}, arguments.keep)


def tell(drawn: dict[tuple[str, int], Population], spent: Counter[tuple[str, int]], sizes: Sequence[int]) -> None:
    """What all windows so far give."""
    plain = drawn.get((IMPORTANCE, sizes[0]))
    best = best_estimate(drawn.values())
    every = drawn if plain is None else {**{(IMPORTANCE, size): regrouped(plain, size) for size in sizes}, **drawn}
    for (name, particles), population in sorted(every.items(), key=lambda item: item[0][1]):
        own = ParticleFacts.of(population)
        number, runs = own.log_z.shape
        print(
            f"{number} windows, {name:20s} {runs:3d} of {particles:4d}: log Z by Theorem 2 "
            f"{partition.lower_bound(own.log_z).mean():.3f} to {partition.upper_bound(own.log_z).mean():.3f}; "
            f"ESS {own.ess.mean():.1f}, {own.num_ancestors.double().mean():.1f} ancestors, "
            f"{own.num_resamplings.double().mean():.1f} resamplings; {spent[name, particles]:.0f} s of CPU"
        )
        spread = scatter(own.log_z.unsqueeze(0), best)
        if name == IMPORTANCE:
            spread = scatter(shared_out(population.log_weights, particles), best)
        print(f"    variance {spread[0].mean():.4f}, squared error {spread[1].mean():.4f}")
        if plain is None or name == IMPORTANCE:
            continue
        cost = spent[name, particles] / population.origins[0].numel()
        cost /= spent[IMPORTANCE, sizes[0]] / plain.origins[0].numel()
        terms = ((f"{particles} samples", particles), (f"{cost:.3f} times as many", round(cost * particles)))
        for means, each in terms:
            if plain.origins[0].numel() < 2 * each:
                continue
            first = scatter(shared_out(plain.log_weights, each), best)
            told = [ratio_with_interval(*both) for both in zip(first, spread, strict=True)]
            print(f"    that of {means} by importance sampling: 1 / {told[0]}; squared error 1 / {told[1]}", flush=True)


def best_estimate(drawn: Iterable[Population]) -> Tensor:  # (B,)
    """The logarithm of the mean Z^ of all estimates, each with the weight of its K particles: unbiased before it."""
    return partition.lower_bound(
        torch.cat(
            [
                population.log_z_estimate.repeat_interleave(population.origins.shape[-1], 1)  # (B, M K)
                for population in drawn
            ],
            1,
        )
    )


def scatter(log_z: Tensor, best: Tensor) -> tuple[Tensor, Tensor]:  # (S, B, M), (B,) -> (B,), (B,)
    """Variance and squared error of M independent estimates, their means over S ways to make them of one pool."""
    return log_z.var(dim=-1).mean(0), (log_z - best.unsqueeze(-1)).square().mean((0, 2))


def tell_what_is_known(twist: Twist, seen: EnergiesSeen, arguments: argparse.Namespace) -> None:
    """What the twist explains of the energy after t tokens, and the ratio of variances that would be had at best."""
    partial, final = seen.partial, seen.final  # (B, n, T), (B, n)
    guesses = torch.cat((torch.zeros_like(partial[..., :1]), twist.slope * partial), -1)  # (B, n, T + 1) -log psi_t
    guesses[..., -1] = final
    spread = within(final[..., None])  # (1,)
    explained = 1 - within(final[..., None] - guesses) / spread  # (T + 1,)
    changes = guesses[..., :: arguments.every].diff(dim=-1)  # (B, n, J)
    print("slopes of the twist:", [round(slope, 2) for slope in twist.slope[3::4].tolist()])
    print("explained of the energy, within prefixes:", [round(share, 2) for share in explained[4::4].tolist()])
    print(f"variance of the energy {float(spread):.2f}, of all changes of the twist {float(within(changes).sum()):.2f}")
    changes = changes - changes.mean(1, keepdim=True)
    for particles in arguments.particles:
        first, second = (simulated(changes.flatten(0, 1), particles, below) for below in (0.0, arguments.below))
        print(f"K {particles}, changes as seen but independent: {first:.3f} to {second:.3f}, 1 / {first / second:.2f}")


def simulated(changes: Tensor, particles: int, below: float, runs: int = 1000) -> float:  # (N, J)
    """Var(log Z^) of energies that change by one of those seen at each stage, whatever came before: a perfect twist."""
    generator = torch.Generator().manual_seed(0)
    population, energy = Population.start(runs, particles), torch.zeros(runs, particles, dtype=torch.double)
    for change in changes.T:
        energy = energy + change[torch.randint(len(change), energy.shape, generator=generator)]
        numbers = torch.rand(runs, generator=generator)
        population, ancestors = resample(population.weighed(-energy), numbers, below=below)
        energy = energy.gather(1, ancestors)
    return float(population.log_z_estimate.var())


def within(values: Tensor) -> Tensor:  # (B, n, J) -> (J,)
    """The variance within prefixes."""
    return values.var(dim=1).mean(0)


def regrouped(plain: Population, particles: int) -> Population:  # (B, M, K) -> (B, M', K')
    """The same samples, never resampled, as estimates of another K."""
    count = plain.origins[0].numel() // particles * particles
    weights, carried = (values.flatten(1)[:, :count].unflatten(1, (-1, particles)) for values in plain[:2])
    return Population.start(*weights.shape)._replace(log_weights=weights, log_carried=carried)


def shared_out(log_weights: Tensor, each: int, ways: int = 200) -> Tensor:  # (B, M, K) -> (S, B, M')
    """log Z^ of estimates of so many samples that have none in common, for many ways to share all M K samples out."""
    generator, flat = torch.Generator().manual_seed(0), log_weights.flatten(1)
    count = flat.shape[1] // each * each
    orders = (torch.randperm(flat.shape[1], generator=generator)[:count] for _ in range(ways))
    return torch.stack([partition.lower_bound(flat[:, order].unflatten(1, (-1, each))) for order in orders])


def timed(
    joint: ResidualEBM,
    prefix: Tensor,
    ids: Sequence[int],
    resampling: Resampling,
    particles: int,
    runs: int,
    length: int,
) -> tuple[Population, float]:
    """All runs of one way, and the CPU seconds that they took."""
    found: list[Population] = []

    def run() -> None:
        populations = run_populations(
            joint,
            prefix,
            num_particles=particles,
            num_runs=runs,
            length=length,
            seed=0,
            prefix_ids=ids,
            resampling=resampling,
        )
        found.append(populations)

    spent = cpu_seconds(run)
    return found[-1], spent


def ratio_with_interval(first: Tensor, second: Tensor, draws: int = 4000) -> str:  # (B,), (B,)
    """Mean over windows by mean over windows, with its 95 % interval when windows are drawn again."""
    chosen = torch.randint(len(first), (draws, len(first)), generator=torch.Generator().manual_seed(0))
    ratios = first[chosen].mean(1) / second[chosen].mean(1)
    low, high = ratios.quantile(torch.tensor([0.025, 0.975], dtype=ratios.dtype)).tolist()
    return f"{first.mean() / second.mean():.2f}, {low:.2f} to {high:.2f}"


if __name__ == "__main__":
    keep_freed_memory()  # as the command line does
    with torch.no_grad():
        main()
