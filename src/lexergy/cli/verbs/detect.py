"""`lexergy detect`: machine or human?"""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer.core import TyperGroup

from lexergy.cli.options import Json
from lexergy.cli.render import print_json, print_lines, print_table, to_plain, visible
from lexergy.cli.verbs import detect_train

if TYPE_CHECKING:
    from lexergy.data.texts import Unreadable
    from lexergy.models.detection import Detector
    from lexergy.report.heat_map import Judged

FILES = "files"
SHORT_TOKENS = 64  # below which a verdict is little more than a guess


class _FilesUnlessNamed(TyperGroup):
    """`lexergy detect MODEL FILE...` is `lexergy detect files MODEL FILE...`."""

    def parse_args(self, ctx: typer.Context, args: list[str]) -> list[str]:  # type: ignore[override]
        named = args and (args[0] in self.commands or args[0] in ctx.help_option_names)
        return super().parse_args(ctx, args if named or not args else [FILES, *args])


app = typer.Typer(
    cls=_FilesUnlessNamed,
    no_args_is_help=True,
    rich_markup_mode=None,
    help=(
        "Machine or human? Judge texts, or train a detector on your own.\n\n"
        "\b\n  lexergy detect MODEL FILE...    what `files` does\n  lexergy detect train --help"
    ),
)
app.command("train")(detect_train.train)


@app.command(FILES)
def files(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="Folder written by `lexergy detect train`.")],
    sources: Annotated[
        list[str],
        typer.Argument(metavar="FILE...", help="Text files, JSONL files (a text a line), folders; `-` is stdin."),
    ],
    text_field: Annotated[str, typer.Option(help="The field of JSONL lines that holds the text.")] = "text",
    explain: Annotated[bool, typer.Option("--explain", help="Show each text in colours, a few words at a time.")] = (
        False
    ),
    html: Annotated[Path | None, typer.Option(help="Write the coloured texts to this HTML page.")] = None,
    as_json: Json = False,
) -> None:
    """The probability that a machine wrote each text, and its energy (positive: a machine).

    Long texts are read in intersecting blocks, whose energies are averaged; of very long ones, 32 blocks spread
    evenly. What cannot be read is named on stderr, the rest is judged, and the exit status is 1.

    Examples:

    \b
      lexergy detect runs/detector essay.txt letters/
      lexergy detect runs/detector answers.jsonl --text-field answer --json
      cat essay.txt | lexergy detect runs/detector - --explain
      lexergy detect runs/detector essay.txt --html essay.html
    """
    from lexergy.models.detection import Detector

    judged, unreadable = _judge(Detector.from_pretrained(model), sources, text_field)
    if as_json:
        print_json({"texts": [_record(text, explain) for text in judged], "unreadable": unreadable})
    elif judged:
        _print(judged, explain)
    if html is not None:
        from lexergy.report.heat_map import write_heat_map

        write_heat_map(judged, html)
        print(f"written: {html}", file=sys.stderr)
    for problem in unreadable:
        print(f"error: {problem.place}: {problem.reason}", file=sys.stderr)
    if unreadable:
        raise typer.Exit(1)


def _judge(detector: "Detector", sources: Sequence[str], text_field: str) -> "tuple[list[Judged], list[Unreadable]]":
    from lexergy.data.texts import PlacedText, Unreadable, read_texts
    from lexergy.errors import LexergyError
    from lexergy.progress import progress_bar
    from lexergy.report.heat_map import Judged

    read = list(read_texts(sources, text_field=text_field))
    texts = [entry for entry in read if isinstance(entry, PlacedText)]
    unreadable = [entry for entry in read if isinstance(entry, Unreadable)]
    judged = []
    with progress_bar("texts", len(texts), enabled=len(texts) > 1) as bar:
        for text, found in zip(texts, detector.detect(text.text for text in texts), strict=True):
            if isinstance(found, LexergyError):
                unreadable.append(Unreadable(text.place, str(found)))
            else:
                judged.append(Judged(text.place, found))
            bar.advance(1)
    return judged, unreadable


def _record(judged: "Judged", explain: bool) -> dict:
    record = {"place": judged.place, **to_plain(judged.detection)}
    if not explain:
        del record["spans"], record["text"]
    return record


def _print(judged: "Sequence[Judged]", explain: bool) -> None:
    rows = [
        (visible(place), f"{found.probability:.3f}", f"{found.energy:+.2f}", str(found.tokens))
        for place, found in judged
    ]
    print_table("Machine or human", ("text", "P(machine)", "energy", "tokens"), rows)
    print_lines(*_notes(judged))
    if explain:
        _print_in_colours(judged)


def _notes(judged: "Sequence[Judged]") -> Iterator[str]:
    for place, found in judged:
        if found.share_read < 1:
            yield f"{visible(place)}: {found.share_read:.1%} of the text read, in {found.blocks} blocks spread evenly"
    short = [place for place, found in judged if found.tokens < SHORT_TOKENS]
    if short:
        yield (
            f"{len(short)} of {len(judged)} texts have fewer than {SHORT_TOKENS} tokens: be cautious with their numbers"
        )


def _print_in_colours(judged: "Sequence[Judged]") -> None:
    from rich.console import Console
    from rich.text import Text

    from lexergy.report.heat_map import colour, pieces

    console = Console(highlight=False)
    for place, found in judged:
        console.print(Text(f"\n{visible(place)}", style="bold"))
        shown = Text()
        for text, probability in pieces(found):
            if not console.is_terminal:
                mark = " .. " if probability is None else f"{probability:.2f}"
                shown.append(f"{mark}  {visible(text).strip()}\n")
            elif probability is None:
                shown.append(visible(text))
            else:
                shown.append(visible(text), style="black on #{:02x}{:02x}{:02x}".format(*colour(probability)))
        console.print(shown)
