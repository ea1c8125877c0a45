"""`lexergy detect stress`: what the usual attacks cost a detector."""

from typing import TYPE_CHECKING, Annotated

import typer

from lexergy.cli.options import Json, LocalOut, Seed, TextField, at_least
from lexergy.cli.render import print_json, print_lines, print_paragraphs, print_table
from lexergy.cli.verbs.detect.evaluate import DocumentField, HumanText, LabelField, MachineText
from lexergy.cli.verbs.detect.options import LMs, ModelAndLabelled, Scorer, opening, split_model

if TYPE_CHECKING:
    from lexergy.core.detection.classification import Metric
    from lexergy.core.estimation.findings import Estimate
    from lexergy.tasks.detection.stress import StressReport

Attacks = Annotated[
    str | None,
    typer.Option(
        "--attacks",
        help="Which, as in homoglyphs,mixed.",
        show_default="all for which there is a model",
    ),
]
Strength = Annotated[
    float | None,
    typer.Option(
        "--strength",
        metavar="SHARE",
        help="Share of the places that an attack changes, from 0 to 1.",
        show_default="each attack's own, mostly RAID's",
    ),
]
Limit = Annotated[
    int | None,
    typer.Option(
        "--limit",
        help="Take so many texts of people and of machines, the first ones.",
        show_default="all",
        callback=at_least(2, "100 will do"),
    ),
]
Replacer = Annotated[
    str | None,
    typer.Option("--replacer", help="LM that proposes other words, for the attack `words`.", show_default="none"),
]
Paraphraser = Annotated[
    str | None,
    typer.Option(
        "--paraphraser", help="Instruction-tuned LM that rewrites sentences, for `paraphrase`.", show_default="none"
    ),
]


def stress(
    arguments: ModelAndLabelled,
    out: LocalOut,
    text_field: TextField = "text",
    label_field: LabelField = "label",
    human_field: HumanText = None,
    machine_field: MachineText = None,
    document_field: DocumentField = None,
    scorer: Scorer = None,
    lm: LMs = None,
    attacks: Attacks = None,
    strength: Strength = None,
    limit: Limit = None,
    replacer: Replacer = None,
    paraphraser: Paraphraser = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Attack machine texts in the usual ways, and say what each attack costs the detector.

    The attacks: homoglyphs, zero-width; doubled-blanks, line-breaks, no-break-blanks; upper-case, lower-case;
    neighbouring-keys, swapped-letters; mixed (people's sentences among the machine's); words (with --replacer),
    paraphrase (with --paraphraser), gradient (where the detector is an encoder).

    People's texts are not attacked: the threshold that accuses 5 % of them stays. Each attack is measured as the text
    is read, and with disguises undone, which is what `lexergy detect` does. With `mixed`, texts are spliced at known
    places, too, and the share of characters is told that the detector attributes to their writer.

    Files are those of `lexergy detect evaluate`; without MODEL, an LM judges as it is. A bench that was stopped goes on
    where it was when the command is given again.

    Examples:

    \b
      lexergy detect stress runs/detector labelled.jsonl --out runs/stress
      lexergy detect stress runs/detector pairs.jsonl --human-field human --machine-field machine \\
          --limit 100 --replacer smollm2-135m --out runs/stress
      lexergy detect stress labelled.csv --attacks homoglyphs,mixed --strength 0.3 --out runs/stress
    """
    from lexergy.tasks.detection.attacks.table import AttackChoice

    names = None if attacks is None else tuple(name.strip() for name in attacks.split(","))
    choice = AttackChoice(names, strength, replacer, paraphraser)
    model, sources = split_model(arguments)
    from lexergy.report.pages.stress import write_stress
    from lexergy.tasks.detection.evaluation_texts import EvaluationFields, read_evaluation_texts
    from lexergy.tasks.detection.stress import stress as attacked

    fields = EvaluationFields(text_field, label_field, human_field, machine_field, document_field)
    texts = read_evaluation_texts(sources, fields)
    how = opening(model, scorer, lm, None, None, None, text_field)
    report = attacked(how.open().detector, how.key, texts, choice, out, limit=limit, seed=seed)
    files = write_stress(report, out)
    if as_json:
        print_json(report)
        return
    _print(report)
    print_lines(f"written: {files.markdown}", f"written: {files.page}")


def _print(report: "StressReport") -> None:
    from lexergy.report.pages.stress import (
        COLUMNS,
        TITLE,
        method,
        numbers,
        reliability_table,
        right_table,
        sentences_method,
    )

    rows = [("none", *map(_cell, numbers(report.unattacked, report.unattacked)))]
    rows += [(own.name, *map(_cell, numbers(own.as_read, own.normalised))) for own in report.attacks]
    print_table(TITLE, COLUMNS, rows)
    print_paragraphs(method(report))
    if report.attribution is not None:
        for table in (right_table(report.attribution), reliability_table(report.attribution)):
            print_table("Which sentences are a machine's", table.columns, table.texts)
        print_paragraphs(sentences_method(report.attribution))


def _cell(estimate: "Metric | Estimate") -> str:
    """`.88 ± .04`, short enough for six columns."""
    half = max(estimate.high - estimate.value, estimate.value - estimate.low)
    return f"{estimate.value:.2f} ± {half:.2f}".replace("-0.00", "0.00").replace("0.", ".")
