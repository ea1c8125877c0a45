"""`lexergy arena`: people judge which of two continuations is better."""

import typer

from lexergy.cli.verbs.arena.make import make
from lexergy.cli.verbs.arena.plan import plan
from lexergy.cli.verbs.arena.report import report
from lexergy.cli.verbs.arena.serve import file, qualify, serve

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help=(
        "People as judges: which of two continuations is better?\n\n"
        "\b\n  lexergy arena plan --rate 0.6\n  lexergy arena make runs/quickstart --pairs 100 --out arena\n"
        "  lexergy arena serve arena\n  lexergy arena report arena"
    ),
)
app.command("plan")(plan)
app.command("make")(make)
app.command("serve")(serve)
app.command("file")(file)
app.command("qualify")(qualify)
app.command("report")(report)
