"""`lexergy detect evaluate`: what a detector is worth on texts whose writers are known."""

from pathlib import Path
from typing import Annotated

import typer

from lexergy.cli.options import Json, Seed, TextField, as_written, new_file, new_place
from lexergy.cli.render import print_json, print_lines, print_paragraphs, print_table
from lexergy.cli.verbs.detect.options import (
    Calibrate,
    ClearAbove,
    Domain,
    FalseDiscoveryRate,
    FalsePositiveRate,
    LMs,
    ModelAndLabelled,
    Scorer,
    false_positives,
    opening,
    split_model,
)
from lexergy.errors import LexergyError

By = Annotated[
    str | None,
    typer.Option(
        "--by",
        help="Columns to divide by, as in domain,generator,decoding,length; `file` and `length` need not be fields.",
    ),
]
LabelField = Annotated[str, typer.Option("--label-field", help="Field that says machine or human, 1 or 0.")]
HumanText = Annotated[
    str | None, typer.Option("--human-field", help="For pairs: the field of a text by people.", show_default="none")
]
MachineText = Annotated[
    str | None,
    typer.Option("--machine-field", help="For pairs: the field of a text by a machine.", show_default="none"),
]
DocumentField = Annotated[
    str | None,
    typer.Option(
        "--document-field",
        help="Field that texts of one document share.",
        show_default="document or source_id; else each record is a document",
    ),
]


def _new_page(param: typer.CallbackParam, value: Path | None) -> Path | None:
    if value is not None and value.suffix not in (".md", ".html"):
        raise LexergyError(f"`--report` is {value}; expected a name that ends in .md or .html.")
    return new_file(param, value)


Page = Annotated[
    Path | None, typer.Option("--report", help="Write the tables to this .md or .html file too.", callback=_new_page)
]

Out = Annotated[
    Path | None,
    typer.Option(
        "--out",
        metavar="PATH",
        help="Keep what the detector says of each text in this folder, or at this address.",
        show_default="a folder of the cache",
        parser=as_written,
        callback=new_place,
    ),
]


def evaluate(
    arguments: ModelAndLabelled,
    by: By = None,
    text_field: TextField = "text",
    label_field: LabelField = "label",
    human_field: HumanText = None,
    machine_field: MachineText = None,
    document_field: DocumentField = None,
    scorer: Scorer = None,
    lm: LMs = None,
    false_positive_rate: FalsePositiveRate = None,
    false_discovery_rate: FalseDiscoveryRate = None,
    clear_above: ClearAbove = None,
    calibrate: Calibrate = None,
    domain: Domain = None,
    report: Page = None,
    out: Out = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """AUC, recall at 1 and 5 % false positives and calibration on texts whose writers are known, with intervals.

    Files are JSONL, CSV, TSV or Parquet: a text and its label in each record, or a text of people and one of a machine
    in two fields. A file with RAID's columns (generation, model, domain, decoding, source_id) needs no options.
    Intervals are by bootstrap over documents; the texts of a record, or of one --document-field, are drawn together.

    Where false positives are calibrated (--false-positives, or without MODEL), the tables also have the share of people
    that were accused at that rate.

    What the detector says of each text is kept (--out): a command that was stopped goes on where it was, and other
    columns or another rate of false positives read no text again.

    Examples:

    \b
      lexergy detect evaluate labelled.jsonl --by domain,generator,length
      lexergy detect evaluate runs/detector raid.csv --by domain,decoding --report raid.html
      lexergy detect evaluate runs/detector pairs.jsonl --human-field human --machine-field machine
      lexergy detect evaluate labelled.csv --label-field written_by --scorer curvature
    """
    model, sources = split_model(arguments)
    allowed = false_positives(false_positive_rate, false_discovery_rate, clear_above)
    how = opening(model, scorer, lm, allowed, calibrate, domain, text_field)
    from lexergy.report.pages.detection import evaluation_sentences, short_note, short_tables, write_evaluation
    from lexergy.tasks.detection.evaluation import evaluate as measure
    from lexergy.tasks.detection.evaluation_texts import EvaluationFields, read_evaluation_texts

    fields = EvaluationFields(text_field, label_field, human_field, machine_field, document_field)
    texts = read_evaluation_texts(sources, fields)
    names = [name.strip() for name in (by or "").split(",") if name.strip()]
    detector, guarantee = how.open()
    evaluation = measure(detector, how.key, texts, names, guarantee, folder=out, seed=seed)
    if report is not None:
        write_evaluation(evaluation, f"Evaluation of {model or scorer or 'the default detector'}", report)
    if as_json:
        print_json(evaluation)
        return
    for table in short_tables(evaluation):
        print_table(table.name.capitalize(), table.columns, table.texts)
    print_paragraphs(short_note(evaluation), *evaluation_sentences(evaluation))
    if report is not None:
        print_lines(f"written: {report}")
