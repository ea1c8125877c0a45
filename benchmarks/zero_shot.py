"""Detection without training: the AUC of every zero-shot scorer on several sets, with intervals over documents.

    python benchmarks/zero_shot.py read --texts texts.jsonl --lm smollm2-135m --cache runs/zero-shot/smollm2.safetensors
    python benchmarks/zero_shot.py table --sets sets.json --cache runs/zero-shot/smollm2.safetensors

Texts are records with `text`; statistics of their tokens are kept by the text's hash, so that a stopped reading goes on
and all scorers come from one pass. A set names files of people's and of machines' texts:
{"news by GPT-2": {"people": ["xsum.jsonl"], "machines": ["gpt2.jsonl"]}}.
"""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from lexergy import CausalLM
from lexergy.core.classification import Metric, classification_metrics
from lexergy.core.zero_shot import SCORERS, TokenStatistics
from lexergy.files import hash_of
from lexergy.models.detection.detector import Detector, DetectorSettings
from lexergy.models.detection.zero_shot import ZeroShotReader
from lexergy.progress import progress_bar

BLOCK_TOKENS = 512
SAVE_EVERY = 20


def read(texts: Sequence[Path], lm: str, cache: Path) -> None:
    """Keep the statistics of each text's first block: (L - 1, 4)."""
    reader = ZeroShotReader(CausalLM.from_pretrained(lm), "likelihood")
    detector = Detector(reader, DetectorSettings(BLOCK_TOKENS))
    cache.parent.mkdir(parents=True, exist_ok=True)
    known = load_file(cache) if cache.exists() else {}
    missing = [
        text for text in dict.fromkeys(record["text"] for record in records(texts)) if hash_of(text) not in known
    ]
    with progress_bar("reading", len(missing)) as bar:
        for number, text in enumerate(missing, start=1):
            tokenised = detector.read(text)
            (own,) = reader.statistics([tokenised.piece(detector.blocks_of(tokenised)[0])])
            known[hash_of(text)] = torch.stack(own, -1).float()
            bar.advance(1)
            if number % SAVE_EVERY == 0 or number == len(missing):
                save_file(known, cache)


def table(sets: Path, cache: Path) -> None:
    """The AUC of each scorer on each set."""
    known, named = load_file(cache), json.loads(sets.read_text())
    print(f"| scorer | {' | '.join(named)} |\n|---|{'---:|' * len(named)}")
    for scorer in SCORERS:
        cells = [cell(auc(scorer, known, own)) for own in named.values()]
        print(f"| {scorer} | {' | '.join(cells)} |", flush=True)


def auc(scorer: str, known: dict[str, Tensor], files: dict[str, list[str]]) -> Metric:
    people, machines = ([*records(map(Path, files[side]))] for side in ("people", "machines"))
    both = [*people, *machines]
    scores = [SCORERS[scorer](TokenStatistics(*known[hash_of(record["text"])].double().T)).mean() for record in both]
    is_machine = torch.tensor([False] * len(people) + [True] * len(machines))
    return classification_metrics(torch.stack(scores), is_machine, [record["document"] for record in both]).auc


def records(files: "Sequence[Path] | map[Path]") -> list[dict[str, str]]:
    return [json.loads(line) for file in files for line in file.read_text().splitlines() if line.strip()]


def cell(metric: Metric) -> str:
    return f"{metric.value:.3f} ({metric.low:.3f} to {metric.high:.3f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    reading = commands.add_parser("read")
    reading.add_argument("--texts", type=Path, nargs="+", required=True)
    reading.add_argument("--lm", default="smollm2-135m")
    reading.add_argument("--cache", type=Path, required=True)
    comparing = commands.add_parser("table")
    comparing.add_argument("--sets", type=Path, required=True)
    comparing.add_argument("--cache", type=Path, required=True)
    options = vars(parser.parse_args())
    {"read": read, "table": table}[options.pop("command")](**options)


if __name__ == "__main__":
    main()
