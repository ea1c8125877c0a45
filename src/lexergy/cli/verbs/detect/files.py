"""`lexergy detect files`: machine or human?"""

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lexergy.cli.engines import check_shards, in_parts
from lexergy.cli.options import Html, Json, ShardsOut, TextField, as_written, known_place
from lexergy.cli.render import print_json, print_lines, print_table, to_plain, visible
from lexergy.errors import LexergyError

if TYPE_CHECKING:
    from lexergy.tasks.detection.judging import Judged


DetectorFolder = Annotated[
    Path,
    typer.Argument(
        metavar="MODEL", help="Folder written by `lexergy detect train`.", parser=as_written, callback=known_place
    ),
]
Sources = Annotated[
    list[str],
    typer.Argument(metavar="FILE...", help="Text files, JSONL files (a text a line), folders; `-` is stdin."),
]
Explain = Annotated[bool, typer.Option("--explain", help="Show each text in colours, a few words at a time.")]

Normalise = Annotated[
    bool,
    typer.Option(
        "--normalise/--no-normalise", help="Undo look-alike letters, invisible characters and odd blanks, and tell."
    ),
]


def _check_prior(value: float) -> float:
    if not 0 < value < 1:
        raise LexergyError(f"`--prior` is {value:g}; expected more than 0 and less than 1; 0.5 favours nobody.")
    return value


Prior = Annotated[
    float,
    typer.Option(
        "--prior",
        metavar="SHARE",
        help="Share of machine text that you expect among such texts.",
        callback=_check_prior,
    ),
]


@in_parts
def files(
    model: DetectorFolder,
    sources: Sources,
    text_field: TextField = "text",
    prior: Prior = 0.5,
    normalise: Normalise = True,
    explain: Explain = False,
    html: Html = None,
    out: ShardsOut = None,
    as_json: Json = False,
) -> None:
    """The probability that a machine wrote each text, and its energy (the higher, the more a machine's).

    The probability is calibrated for the length of the text: a few words stay near the prior. The number of a span
    (--explain, --html) is a probability too: that a machine wrote the text, judged by those words alone, calibrated on
    spans. A warning says where a text is unlike those the detector was trained on: less than half or more than twice
    their tokens, an energy far outside of theirs; its probability is then not to be trusted.

    Letters of other scripts that look Latin, characters that nobody sees and odd blanks are undone before a text is
    read, and told, since ordinary texts have none; --no-normalise reads texts as they are.

    Long texts are read in overlapping blocks, whose energies are averaged; of very long ones, 32 blocks spread
    evenly. What cannot be read is named on stderr, the rest is judged, and the exit status is 1.

    For very many texts, --out keeps what is found in a folder, in shards that --engine and --part share out, and one
    JSON object a line is printed; a command that was stopped goes on where it was.

    Examples:

    \b
      lexergy detect runs/detector essay.txt letters/
      lexergy detect runs/detector answers.jsonl --text-field answer --json
      lexergy detect runs/detector letters/ --prior 0.02
      cat essay.txt | lexergy detect runs/detector - --explain
      lexergy detect runs/detector essay.txt --html essay.html
      lexergy detect runs/detector answers.jsonl --out runs/answers --engine ray > verdicts.jsonl
    """
    check_shards(out, sources)
    if out is not None:
        _judge_into(out, model, sources, text_field, prior, normalise, explain or html is not None)
        return
    from lexergy.tasks.detection.judging import judge_sources

    judged, unreadable = judge_sources(model, sources, text_field, prior, normalised=normalise)
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


def _judge_into(
    out: Path, model: Path, sources: list[str], text_field: str, prior: float, normalise: bool, explained: bool
) -> None:
    if explained:
        raise LexergyError(
            "`--out` keeps no spans; expected it without `--explain` and `--html`; leave one of them out."
        )
    from lexergy.tasks.detection.file_judging import judge_into

    unreadable = 0
    for verdict in judge_into(out, model, sources, text_field, prior, normalised=normalise):
        print(json.dumps({name: value for name, value in verdict.items() if value is not None}, ensure_ascii=False))
        unreadable += verdict["reason"] is not None
    if unreadable:
        print(f"error: {unreadable} texts could not be judged; each says its `reason`", file=sys.stderr)
        raise typer.Exit(1)


def _record(judged: "Judged", explain: bool) -> dict:
    record = {"place": judged.place, **to_plain(judged.detection)}
    if not explain:
        del record["spans"], record["text"]
    return record


def _print(judged: "Sequence[Judged]", explain: bool) -> None:
    rows = [
        (visible(place), f"{detection.probability:.3f}", f"{detection.energy:+.2f}", str(detection.tokens))
        for place, detection in judged
    ]
    print_table("Machine or human", ("text", "P(machine)", "energy", "tokens"), rows)
    print_lines(*_notes(judged))
    if explain:
        _print_in_colours(judged)


def _notes(judged: "Sequence[Judged]") -> Iterator[str]:
    for place, detection in judged:
        if detection.share_read < 1:
            read = f"{detection.share_read:.1%} of the text read, in {detection.blocks} blocks spread evenly"
            yield f"{visible(place)}: {read}"
        if detection.disguises:
            yield f"{visible(place)}: {', '.join(detection.disguises)}"
    warned: dict[str, list[str]] = {}
    for place, detection in judged:
        for warning in detection.warnings:
            warned.setdefault(warning, []).append(visible(place))
    for warning, places in warned.items():
        named = f"{len(places)} texts" if len(places) > 1 else places[0]
        yield f"warning: {named}: {warning}"


def _print_in_colours(judged: "Sequence[Judged]") -> None:
    from rich.console import Console
    from rich.text import Text

    from lexergy.report.heat_map import SPAN_NUMBER, colour, pieces

    console = Console(highlight=False)
    console.print(Text(f"\nOf each span: {SPAN_NUMBER}."))
    for place, detection in judged:
        console.print(Text(f"\n{visible(place)}", style="bold"))
        shown = Text()
        for text, probability in pieces(detection):
            if not console.is_terminal:
                mark = " .. " if probability is None else f"{probability:.2f}"
                shown.append(f"{mark}  {visible(text).strip()}\n")
            elif probability is None:
                shown.append(visible(text))
            else:
                shown.append(visible(text), style="black on #{:02x}{:02x}{:02x}".format(*colour(probability)))
        console.print(shown)
