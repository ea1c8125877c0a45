"""The exact partition function of a masked LSTM: trees of shared states against every sequence by itself, in one run.

With `--full` also all 3.5 billion sequences of 6 phonemes.
"""

import argparse
import resource

import torch
from timing import cpu_seconds, seconds

from lexergy.core.enumeration import all_sequences
from lexergy.models.architectures.masked_lstm import MaskedLSTM
from lexergy.models.architectures.masked_lstm_partition import log_partition

VOCAB_SIZE, FULL_LENGTH = 39, 6
ROWS = 4096


def naive_log_partition(model: MaskedLSTM, length: int) -> float:
    """Every sequence through both LSTMs, a few thousand at a time."""
    with torch.no_grad():
        parts = [
            torch.logsumexp(-model.energy(rows).double(), 0)
            for rows in all_sequences(model.vocab_size, length).split(ROWS)
        ]
    return float(torch.stack(parts).logsumexp(0))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hidden-size", type=int, default=64)
    parser.add_argument("--length", type=int, default=4, help="where both are run")
    parser.add_argument("--full", action="store_true", help=f"also length {FULL_LENGTH}, by trees alone")
    arguments = parser.parse_args()
    model = MaskedLSTM(VOCAB_SIZE, arguments.hidden_size, seed=0)
    found: dict[str, float] = {}
    log_partition(model, 2)  # warm
    spent = {
        "trees": cpu_seconds(lambda: found.update(trees=log_partition(model, arguments.length))),
        "naive": cpu_seconds(lambda: found.update(naive=naive_log_partition(model, arguments.length))),
    }
    print(
        f"{VOCAB_SIZE**arguments.length:,} sequences of {arguments.length}, hidden size {arguments.hidden_size}, "
        f"{torch.get_num_threads()} threads: trees {spent['trees']:.2f} s of CPU, naive {spent['naive']:.2f} s, "
        f"{spent['naive'] / spent['trees']:.0f} times faster; log Z {found['trees']:.9f} and {found['naive']:.9f}, "
        f"relative difference {abs(found['trees'] / found['naive'] - 1):.1e}"
    )
    if arguments.full:
        cpu: list[float] = []
        wall = seconds(
            lambda: cpu.append(cpu_seconds(lambda: found.update(full=log_partition(model, FULL_LENGTH, progress=True))))
        )
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        print(
            f"{VOCAB_SIZE**FULL_LENGTH:,} sequences of {FULL_LENGTH}: log Z {found['full']:.6f} in {cpu[0]:.0f} s of "
            f"CPU, {wall:.0f} s of wall time, peak resident memory {peak:.2f} GiB"
        )


if __name__ == "__main__":
    main()
