"""`lexergy detect files`: machine or human?"""

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lexergy.cli.engines import check_shards, in_parts
from lexergy.cli.options import Html, Json, ShardsOut, TextField
from lexergy.cli.render import print_json, print_lines, print_paragraphs, print_table, to_plain, visible
from lexergy.cli.verbs.detect.options import (
    Calibrate,
    ClearAbove,
    Domain,
    FalseDiscoveryRate,
    FalsePositiveRate,
    LMs,
    ModelAndSources,
    Scorer,
    false_positives,
    opening,
    split_model,
)
from lexergy.errors import LexergyError

if TYPE_CHECKING:
    from lexergy.tasks.detection.judging import Judged, Judgement, Question
    from lexergy.tasks.detection.opening import Opening


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


Lines = Annotated[
    bool, typer.Option("--lines", help="Print a JSON object a line as soon as each text is judged, for pipes.")
]


@in_parts
def files(
    arguments: ModelAndSources,
    text_field: TextField = "text",
    scorer: Scorer = None,
    lm: LMs = None,
    false_positive_rate: FalsePositiveRate = None,
    false_discovery_rate: FalseDiscoveryRate = None,
    clear_above: ClearAbove = None,
    calibrate: Calibrate = None,
    domain: Domain = None,
    prior: Prior = 0.5,
    normalise: Normalise = True,
    explain: Explain = False,
    html: Html = None,
    out: ShardsOut = None,
    lines: Lines = False,
    as_json: Json = False,
) -> None:
    """The probability that a machine wrote each text, and its energy (the higher, the more a machine's).

    Without MODEL, an LM judges as it is (--scorer, --lm). That gives no probability, but a p-value: of people's texts
    like those it was calibrated on, at most this share has as high an energy. Up to --false-positives, the verdict is
    "machine"; above --clear-above, "people"; between, "cannot tell". The rate holds for texts like those
    calibrated on: give your own with --calibrate. A warning says where they look unlike.

    --explain and --html show which sentences are a machine's, each with a probability that is calibrated on texts
    spliced at known places.

    Of a trained detector the probability is calibrated for the length of the text: a few words stay near the prior.
    The number of a span (--explain, --html) is a probability too: that a machine wrote the text, judged by those words
    alone, calibrated on spans. A warning says where a text is unlike those the detector was trained on: less than half
    or more than twice their tokens, an energy far outside of theirs; its probability is then not to be trusted.

    Letters of other scripts that look Latin, characters that nobody sees and odd blanks are undone before a text is
    read, and told, since ordinary texts have none; --no-normalise reads texts as they are.

    Long texts are read in overlapping blocks, whose energies are averaged; of very long ones, 32 blocks spread
    evenly. What cannot be read is named on stderr, the rest is judged, and the exit status is 1.

    For very many texts, --out keeps what is found in a folder, in shards that --engine and --part share out, and one
    JSON object a line is printed; a command that was stopped goes on where it was. --lines keeps nothing and prints as
    it reads.

    Examples:

    \b
      lexergy detect essay.txt letters/
      lexergy detect essay.txt --explain
      lexergy detect letters/ --false-positives 0.01 --calibrate my-own-letters/
      lexergy detect runs/detector essay.txt letters/
      lexergy detect runs/detector answers.jsonl --text-field answer --json
      lexergy detect runs/detector letters/ --prior 0.02
      cat essay.txt | lexergy detect runs/detector - --explain
      lexergy detect runs/detector essay.txt --html essay.html
      lexergy detect runs/detector answers.jsonl --out runs/answers --engine ray > verdicts.jsonl
      tail -f answers.jsonl | lexergy detect runs/detector - --lines
    """
    model, sources = split_model(arguments)
    check_shards(out, sources)
    allowed = false_positives(false_positive_rate, false_discovery_rate, clear_above)
    how = opening(model, scorer, lm, allowed, calibrate, domain, text_field)
    _check_output(how, explain or html is not None, out, lines)
    from lexergy.tasks.detection.judging import Question, judge_sources

    question = Question(sources, text_field, prior, normalise)
    if out is not None or lines:
        _print_lines_of(_in_shards(out, how, question) if out is not None else _in_stream(how, question))
        return
    judgement = judge_sources(how, question)
    if as_json:
        _print_as_json(judgement, explain)
    elif judgement.judged:
        _print(judgement, explain)
    if html is not None:
        from lexergy.report.pages.heat_map import verdict_sentences, write_heat_map

        write_heat_map(judgement.judged, html, verdict_sentences(judgement))
        print(f"written: {html}", file=sys.stderr)
    for problem in judgement.unreadable:
        print(f"error: {problem.place}: {problem.reason}", file=sys.stderr)
    if judgement.unreadable:
        raise typer.Exit(1)


def _check_output(how: "Opening", explained: bool, out: Path | None, lines: bool) -> None:
    if explained and (out is not None or lines):
        raise LexergyError(
            "`--out` and `--lines` keep no spans; expected it without `--explain` and `--html`; leave one of them out."
        )
    if explained and not how.tells_sentences:
        raise LexergyError(
            "`--explain` and `--html` show probabilities of sentences, which another score than the default has not; "
            "expected none in `--scorer` and `--lm`, or MODEL, a folder of `lexergy detect train`."
        )
    if lines and how.allowed is not None and how.allowed.among_accused:
        raise LexergyError(
            "`--false-discoveries` is known when all texts are judged; expected it without `--lines`; give "
            "`--false-positives`."
        )
    if lines and out is not None:
        raise LexergyError("`--lines` keeps nothing and `--out` does; leave one of them out.")


def _print_lines_of(records: Iterator[dict[str, Any]]) -> None:
    unreadable = 0
    for record in records:
        known = {name: value for name, value in record.items() if value is not None}
        print(json.dumps(known, ensure_ascii=False), flush=True)
        unreadable += record.get("reason") is not None
    if unreadable:
        print(f"error: {unreadable} texts could not be judged; each says its `reason`", file=sys.stderr)
        raise typer.Exit(1)


def _in_shards(out: Path, how: "Opening", question: "Question") -> Iterator[dict[str, Any]]:
    from lexergy.tasks.detection.file_judging import judge_into

    return judge_into(out, how, question)


def _in_stream(how: "Opening", question: "Question") -> Iterator[dict[str, Any]]:
    from lexergy.tasks.detection.judging import Judged, judge_stream

    for entry in judge_stream(how.open(), question):
        if not isinstance(entry, Judged):
            yield to_plain(entry)
            continue
        record = _record(entry, False)
        record.pop("adjusted", None)  # of one text among many it says nothing
        yield record


def _print_as_json(judgement: "Judgement", explain: bool) -> None:
    print_json(
        {
            "texts": [_record(text, explain) for text in judgement.judged],
            "unreadable": judgement.unreadable,
            **({} if judgement.warning is None else {"warning": judgement.warning}),
        }
    )


def _record(judged: "Judged", explain: bool) -> dict[str, Any]:
    record = {"place": judged.place, **to_plain(judged.detection)}
    accusation = record.pop("accusation")
    if not explain:
        del record["spans"], record["sentences"], record["text"]
    return {**record, **(accusation or {})}


def _print(judgement: "Judgement", explain: bool) -> None:
    from lexergy.report.pages.heat_map import verdict_sentences

    judged = judgement.judged
    columns = {
        "P(machine)": lambda detection: f"{detection.probability:.3f}",
        "energy": lambda detection: f"{detection.energy:+.2f}",
        "p-value": lambda detection: f"{detection.accusation.p_value:.3f}",
        "adjusted": lambda detection: f"{detection.accusation.adjusted:.3f}",
        "verdict": lambda detection: detection.accusation.verdict,
        "tokens": lambda detection: str(detection.tokens),
    }
    if judgement.guarantee is None:
        del columns["p-value"], columns["adjusted"], columns["verdict"]
    elif not judgement.guarantee.allowed.among_accused:
        del columns["adjusted"]
    if judged[0].detection.probability is None:
        del columns["P(machine)"]
    rows = [(visible(place), *(cell(detection) for cell in columns.values())) for place, detection in judged]
    words = [0, *(place for place, name in enumerate(columns, start=1) if name == "verdict")]
    print_table("Machine or human", ("text", *columns), rows, words)
    print_lines(*_notes(judged))
    if said := list(verdict_sentences(judgement)):
        print_paragraphs(*said)
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

    from lexergy.report.pages.heat_map import colour, meaning, pieces

    console = Console(highlight=False)
    console.print(Text(f"\n{meaning(own.detection for own in judged)}."))
    for place, detection in judged:
        console.print(Text(f"\n{visible(place)}", style="bold"))
        shown = Text()
        for text, probability in pieces(detection):
            if not console.is_terminal:
                if not text.strip():
                    continue
                mark = " .. " if probability is None else f"{probability:.2f}"
                shown.append(f"{mark}  {visible(text).strip()}\n")
            elif probability is None:
                shown.append(visible(text))
            else:
                shown.append(visible(text), style="black on #{:02x}{:02x}{:02x}".format(*colour(probability)))
        console.print(shown, soft_wrap=not console.is_terminal)  # in a file or a pipe: a sentence a line
