"""`lexergy finetune predict`: ask a fine-tuned model."""

from pathlib import Path
from typing import Annotated

import typer

from lexergy.cli.options import Json, PairField, TextField, as_written, known_place
from lexergy.cli.render import print_json, print_table, visible
from lexergy.errors import LexergyError

COLUMNS = {
    "classification": ("place", "label", "probability"),
    "regression": ("place", "estimate"),
    "span": ("place", "question", "answer"),
}

FinetunedFolder = Annotated[
    Path,
    typer.Argument(
        metavar="MODEL", help="Folder written by `lexergy finetune train`.", parser=as_written, callback=known_place
    ),
]
Source = Annotated[str, typer.Argument(metavar="FILE", help="A file like those it learnt from, without labels.")]


def predict(
    model: FinetunedFolder,
    source: Source,
    text: TextField = "text",
    pair: PairField = None,
    as_json: Json = False,
) -> None:
    """What the best of the fine-tuned models says of each text, pair or question.

    Examples:

    \b
      lexergy finetune predict runs/stars new.csv
      lexergy finetune predict runs/follows new.jsonl --text-field first --pair-field second --json
    """
    if not model.is_dir():
        raise LexergyError(f"the folder {model} does not exist; expected one written by `lexergy finetune train`.")
    from lexergy.tasks.finetuning.prediction import predictions
    from lexergy.tasks.finetuning.training import load_finetuned

    finetuned = load_finetuned(model)
    records = predictions(finetuned, source, text, pair)
    if as_json:
        print_json(records)
    else:
        columns = COLUMNS[finetuned.task]
        rows = [tuple(visible(_cell(record[name])) for name in columns) for record in records]
        print_table("Predictions", columns, rows)


def _cell(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
