"""Encoders of one size fine-tuned on tasks of the State of the Union addresses: medians over seeds, in one table.

    python benchmarks/finetuning.py runs/electric-family-cpu/electric runs/electric-family-cpu/masked-lm \\
        --out docs/results/electric/finetuning.md

The first encoder with random weights stands beside them, to show what pre-training gives. Finished seeds lie in
`runs/finetuning` and are not trained again.
"""

import argparse
import json
import shlex
import sys
import time
from dataclasses import asdict
from pathlib import Path

from lexergy.data.labelled import Fields, load_labelled, load_questions
from lexergy.data.sotu_tasks import sotu_tasks
from lexergy.files import atomic_path, atomic_write_text
from lexergy.models.cloze import ElectricModel
from lexergy.models.cloze.bodies import BodyShape
from lexergy.models.energies.backbones import encoder_backbone
from lexergy.recipes.finetuning import FinetuningRecipe
from lexergy.tasks.finetuning.examples import FinetuneData
from lexergy.tasks.finetuning.training import MAIN_METRIC, FinetuneReport, finetune

UNTRAINED = "untrained"
TASKS = {  # file, fields, task
    "era": ("excerpts", Fields(label="era"), "classification"),
    "year": ("excerpts", Fields(label="year"), "regression"),
    "follows": ("sentences", Fields("first", "second", "follows"), "classification"),
    "quotation": ("quotations", None, "span"),
}
MEANINGS = {
    "era": "era of an excerpt, 4 classes: accuracy",
    "year": "year of an excerpt: Spearman's correlation",
    "follows": "does the second sentence follow the first? accuracy",
    "quotation": "rest of a quoted sentence: exact match",
}


def data_of(task: str, limits: dict[str, int]) -> FinetuneData:
    name, fields, _ = TASKS[task]
    paths = sotu_tasks()
    parts = []
    for split, limit in limits.items():
        path = str(paths[f"{name}-{split}"])
        parts.append((load_questions(path) if fields is None else load_labelled(path, fields))[:limit])
    return FinetuneData(*parts)


def untrained_like(source: str, folder: Path) -> str:
    """An encoder of the shape of `source` with random weights, saved to `folder` with the same tokenizer."""
    if not folder.is_dir():
        backbone = encoder_backbone(source)
        config = backbone.model.config
        shape = BodyShape(
            config.vocab_size,
            config.hidden_size,
            config.num_hidden_layers,
            config.num_attention_heads,
            config.max_position_embeddings,
            config.model_type,
            config.intermediate_size,
        )
        with atomic_path(folder) as partial:
            ElectricModel.from_shape(shape, seed=0).save_pretrained(partial)
            backbone.tokenizer.save_pretrained(partial)
    return str(folder)


def encoder_parameters(source: str) -> str:
    return f"{sum(value.numel() for value in encoder_backbone(source).model.parameters()) / 1e6:.2f} M"


def table(reports: dict[tuple[str, str], FinetuneReport], encoders: dict[str, str], tasks: list[str]) -> str:
    lines = ["| | " + " | ".join(encoders) + " |", "|---" * (1 + len(encoders)) + "|"]
    lines.append(f"| encoder's parameters | {' | '.join(map(encoder_parameters, encoders.values()))} |")
    for task in tasks:
        metric = MAIN_METRIC[TASKS[task][2]]
        cells = [reports[task, name].metrics[metric] for name in encoders]
        shown = [f"{cell.median:.3f} ({cell.least:.3f} .. {cell.greatest:.3f})" for cell in cells]
        lines.append(f"| {MEANINGS[task]} | {' | '.join(shown)} |")
    return "\n".join(lines)


def page(
    reports: dict[tuple[str, str], FinetuneReport], encoders: dict[str, str], options: argparse.Namespace, command: str
) -> str:
    first = next(iter(reports.values()))
    counts = {task: reports[task, next(iter(encoders))].examples for task in options.tasks}
    sizes = ", ".join(
        f"{task} {count['train']} / {count['validation']} / {count['test']}" for task, count in counts.items()
    )
    return f"""# Fine-tuning on the State of the Union addresses

    {command}

Median (least .. greatest) over {len(first.seeds)} seeds on test examples, of years that are neither in training nor in
validation. Examples for training / validation / test: {sizes}.
Batches of {options.batch_size}, {options.epochs:g} epochs, learning rate {options.learning_rate:g}, layer-wise decay
{options.layer_decay:g} (App. B, Clark et al. 2020). The texts themselves, without labels, were part of what the
encoders were pre-trained on; "{UNTRAINED}" has the shape of "{next(iter(encoders))}" and random weights.

{table(reports, encoders, options.tasks)}

Trainings took {sum(report.seconds for report in reports.values()) / 60:.0f} minutes in all.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("encoders", nargs="+")
    parser.add_argument("--tasks", nargs="+", choices=list(TASKS), default=["era", "year", "follows"])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--examples", type=int, default=800, help="to learn from, at most")
    parser.add_argument("--judged", type=int, default=400, help="to judge on, at most; half as many to choose on")
    parser.add_argument("--epochs", type=float, default=2)
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    parser.add_argument("--layer-decay", type=float, default=0.8)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--max-length", type=int, default=64)
    parser.add_argument("--folder", type=Path, default=Path("runs/finetuning"))
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    encoders = {Path(source).name: source for source in options.encoders}
    encoders[UNTRAINED] = untrained_like(
        options.encoders[0], options.folder / UNTRAINED / Path(options.encoders[0]).name
    )
    limits = {"train": options.examples, "validation": options.judged // 2, "test": options.judged}
    reports = {}
    for task in options.tasks:
        data = data_of(task, limits)
        for name, source in encoders.items():
            settings = FinetuningRecipe(
                encoder=source,
                task=TASKS[task][2],  # type: ignore[arg-type]
                epochs=options.epochs,
                learning_rate=options.learning_rate,
                layer_decay=options.layer_decay,
                batch_size=options.batch_size,
                max_length=options.max_length,
                stride=16,
                num_seeds=options.seeds,
            )
            started = time.process_time()
            report = finetune(data, settings, options.folder / task / name, progress=False)
            reports[task, name] = report
            main_metric = MAIN_METRIC[report.task]
            seconds = time.process_time() - started
            print(task, name, json.dumps(asdict(report.metrics[main_metric])), f"{seconds:.0f} CPU seconds", flush=True)
    text = page(reports, encoders, options, f"python benchmarks/finetuning.py {shlex.join(sys.argv[1:])}")
    print(text)
    if options.out is not None:
        atomic_write_text(options.out, text)


if __name__ == "__main__":
    main()
