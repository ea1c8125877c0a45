"""What a run that draws by SMC gains over one that draws by importance sampling, from what both have stored.

    lexergy run smollm2-sotu-best --out runs/best       # with `perplexity: {samples: 64}` in a copy of the recipe
    cp -r runs/best runs/smc && lexergy run smollm2-sotu-smc --out runs/smc
    python benchmarks/smc_runs.py runs/best runs/smc

Both have the same energy and test windows. SMC has runs of K particles of each window, and the samples of
importance sampling are shared out to estimates of K, which is done in many ways. Printed are the variances of log Z^
within windows, by how much SMC's is smaller (95 % interval over documents), and what both joint models are at most.

A text of SMC costs a little more. With `--cost 1.2`, the CPU time of one over that of a sample, importance sampling
also has estimates of 1.2 K samples.
"""

import argparse
from collections.abc import Hashable, Sequence
from pathlib import Path

import torch
from smc import shared_out
from torch import Tensor

from lexergy.core.estimation.bootstrap import bootstrap_std_error
from lexergy.errors import LexergyError
from lexergy.runs.columns import from_column
from lexergy.runs.records import load_run, read_weights, weights_column

DRAWS = 4000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("importance", type=Path)
    parser.add_argument("smc", type=Path)
    parser.add_argument("--energy", default="energy")
    parser.add_argument("--cost", type=float, help="CPU time of a text of SMC, that of a plain sample being 1")
    arguments = parser.parse_args()
    folders = (arguments.importance, arguments.smc)
    plain, steered = (load_run(folder).energies[arguments.energy].perplexity for folder in folders)
    weights, log_z = (stored(folder, arguments.energy) for folder in folders)
    documents = steered.windows.documents
    if plain.windows.documents != documents or not torch.allclose(
        plain.windows.base_log_prob, steered.windows.base_log_prob, atol=0.01
    ):
        raise LexergyError("the runs were measured on different windows; expected the same.")
    runs, particles = log_z.shape[1], steered.num_particles
    print(f"{len(documents)} windows of {len(set(documents))} documents, {runs} estimates of {particles} samples each")
    costs = [1.0] if arguments.cost is None else [1.0, arguments.cost]
    for each in (round(cost * particles) for cost in costs):
        number = weights.shape[1] // each
        if number < 2:
            raise LexergyError(
                f"{arguments.importance} has {weights.shape[1]} samples of a window; expected two estimates of {each}."
            )
        first = shared_out(weights, each).var(dim=-1).mean(0)  # (B,)
        second = log_z.var(dim=1)  # (B,)
        low, high = interval(first, second, documents)
        ratio = f"1 / {first.mean() / second.mean():.2f} ({low:.2f} to {high:.2f})"
        print(f"variance of log Z^: importance sampling of {each} {first.mean():.4f}, SMC {second.mean():.4f}: {ratio}")
    for name, estimate in (("importance sampling", plain), ("SMC", steered)):
        print(f"{name}: at most {estimate.bound:.2f} ± {estimate.std_error:.2f}, where the LM is {estimate.base:.2f}")
    over = (steered.windows.gain - plain.windows.gain) / steered.continuation_length
    error = bootstrap_std_error(over, 0, groups=documents)
    print(f"SMC is lower by {over.mean():.4f} ± {error:.4f} nats per token")


def stored(folder: Path, energy: str) -> Tensor:  # (B, n)
    """Log-weights of samples, or log Z^ of runs."""
    return torch.from_numpy(from_column(read_weights(folder / "perplexity").column(weights_column(energy)))).double()


def interval(first: Tensor, second: Tensor, documents: Sequence[Hashable]) -> tuple[float, float]:  # (B,), (B,)
    """Mean by mean, 95 % when documents are drawn again."""
    numbers = {document: number for number, document in enumerate(dict.fromkeys(documents))}
    place = torch.tensor([numbers[document] for document in documents])
    sums = torch.zeros(len(numbers), 2, dtype=torch.double).index_add_(0, place, torch.stack((first, second), 1))
    chosen = torch.randint(len(sums), (DRAWS, len(sums)), generator=torch.Generator().manual_seed(0))
    drawn = sums[chosen].sum(1)  # (DRAWS, 2)
    low, high = (drawn[:, 0] / drawn[:, 1]).quantile(torch.tensor([0.025, 0.975], dtype=torch.double)).tolist()
    return low, high


if __name__ == "__main__":
    main()
