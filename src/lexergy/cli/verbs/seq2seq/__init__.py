"""`lexergy seq2seq`: taggers and translators that are trained for the search that decodes them."""

import typer

from lexergy.cli.verbs.seq2seq.evaluate import evaluate
from lexergy.cli.verbs.seq2seq.predict import predict
from lexergy.cli.verbs.seq2seq.train import train

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help=(
        "Train a tagger or translator for the search that decodes it, and ask it.\n\n"
        "\b\n  lexergy seq2seq train DATA --out runs/tagger\n  lexergy seq2seq predict runs/tagger FILE --beam 5\n"
        "  lexergy seq2seq evaluate runs/tagger FILE"
    ),
)
app.command("train")(train)
app.command("predict")(predict)
app.command("evaluate")(evaluate)
