"""`lexergy finetune`: an encoder learns a task from labelled texts, and is asked afterwards."""

import typer

from lexergy.cli.verbs.finetune.predict import predict
from lexergy.cli.verbs.finetune.train import train

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help=(
        "Fine-tune an encoder on labelled texts, pairs of texts or questions, or ask one that was.\n\n"
        "\b\n  lexergy finetune train --help\n  lexergy finetune predict MODEL FILE"
    ),
)
app.command("train")(train)
app.command("predict")(predict)
