"""`lexergy detect`: machine or human? Judge texts, or train a detector."""

import typer
from typer.core import TyperGroup

from lexergy.cli.verbs.detect.calibrate import calibrate
from lexergy.cli.verbs.detect.evaluate import evaluate
from lexergy.cli.verbs.detect.files import files
from lexergy.cli.verbs.detect.stress import stress
from lexergy.cli.verbs.detect.train import train

FILES = "files"


class _FilesUnlessNamed(TyperGroup):
    """`lexergy detect [MODEL] FILE...` is `lexergy detect files [MODEL] FILE...`."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        named = args and (args[0] in self.commands or args[0] in ctx.help_option_names)
        return super().parse_args(ctx, args if named or not args else [FILES, *args])


app = typer.Typer(
    cls=_FilesUnlessNamed,
    no_args_is_help=True,
    rich_markup_mode=None,
    help=(
        "Machine or human? Judge texts, with or without a detector trained on your own.\n\n"
        "\b\n  lexergy detect FILE...          without training: what `files` does\n"
        "  lexergy detect MODEL FILE...    with a detector of `train`\n  lexergy detect train --help\n"
        "  lexergy detect evaluate --help\n  lexergy detect calibrate --help\n"
        "  lexergy detect stress --help"
    ),
)
app.command(FILES, short_help="Judge texts.")(files)
app.command("train", short_help="Train a detector on texts of your own.")(train)
app.command("evaluate", short_help="What a detector is worth on labelled texts.")(evaluate)
app.command("calibrate", short_help="Mend a trained detector's bias on another kind.")(calibrate)
app.command("stress", short_help="What attacks on machine texts cost a detector.")(stress)
