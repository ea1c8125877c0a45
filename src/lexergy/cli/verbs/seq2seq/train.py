"""`lexergy seq2seq train`: a tagger or translator that knows of the search that decodes it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lexergy.cli.options import Json, Out, Seed, at_least, positive
from lexergy.cli.render import lexergy_command, print_json, print_lines, print_table
from lexergy.cli.verbs.seq2seq.options import FileFormat, LabelColumn, Normalisation, Scheme, WordColumn, tell
from lexergy.errors import LexergyError

if TYPE_CHECKING:
    from lexergy.recipes.search_aware import SearchAwareRecipe
    from lexergy.tasks.search_aware.training import SequenceReport

MEANINGS = {"accuracy": "accuracy", "f1": "F1", "bleu": "BLEU"}

Data = Annotated[
    str | None,
    typer.Argument(
        metavar="DATA",
        help="A CoNLL or tab-separated file, a folder, ud-ewt or conll2003.",
        show_default="the recipe's",
    ),
]
RecipeOption = Annotated[
    str,
    typer.Option("--recipe", help="Sizes and objectives: tagging-cpu, ner-cpu, translation-search-cpu or a YAML file."),
]
Objective = Annotated[
    str,
    typer.Option(
        "--objective",
        help="What is minimised, by its name in the recipe: cross-entropy, self-normalised, scheduled, soft-beam, ...",
    ),
]
Dev = Annotated[
    str | None,
    typer.Option("--dev", metavar="FILE", help="Sentences to choose on.", show_default="a tenth of DATA's"),
]
Test = Annotated[
    str | None,
    typer.Option("--test", metavar="FILE", help="Sentences to judge on.", show_default="a tenth of DATA's"),
]
Start = Annotated[
    Path | None,
    typer.Option(
        "--start",
        metavar="MODEL",
        help="A trained model to start from.",
        show_default="one trained by cross-entropy first, where the recipe says so",
    ),
]
Beam = Annotated[
    int | None,
    typer.Option(
        "--beam", help="Beam of the search.", show_default="the recipe's", callback=at_least(1, "1 is greedy search")
    ),
]
Epochs = Annotated[
    float | None,
    typer.Option(
        "--epochs",
        help="Passes over the data by the objective.",
        show_default="the recipe's",
        callback=positive("try 8"),
    ),
]
LearningRate = Annotated[
    float | None,
    typer.Option("--learning-rate", help="Largest rate.", show_default="the recipe's", callback=positive("try 0.003")),
]
Unidirectional = Annotated[
    bool, typer.Option("--unidirectional", help="The encoder reads from left to right alone: label bias is strongest.")
]


def train(
    out: Out,
    data: Data = None,
    objective: Objective = "cross-entropy",
    normalisation: Normalisation = None,
    beam: Beam = None,
    dev: Dev = None,
    test: Test = None,
    file_format: FileFormat = None,
    word_column: WordColumn = None,
    label_column: LabelColumn = None,
    scheme: Scheme = None,
    start: Start = None,
    epochs: Epochs = None,
    learning_rate: LearningRate = None,
    unidirectional: Unidirectional = False,
    recipe: RecipeOption = "tagging-cpu",
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """Train, judge by several beams and write a report page.

    The stages are data, a start by cross-entropy where the objective wants one, the objective, and evaluation. A
    command that was stopped goes on where it was. Sentences that cannot be read are named, and left out.

    Examples:

    \b
      lexergy seq2seq train train.conll --out runs/tagger
      lexergy seq2seq train train.conll --objective soft-beam --beam 3 --out runs/tagger
      lexergy seq2seq train ud-ewt --unidirectional --objective soft-beam-global --out runs/ewt
      lexergy seq2seq train conll2003 --recipe ner-cpu --beam 3 --out runs/ner
      lexergy seq2seq train pairs.tsv --recipe translation-search-cpu --out runs/de-en
    """
    from lexergy.recipes.loader import load_recipe
    from lexergy.recipes.search_aware import SearchAwareRecipe

    learning = {"epochs": epochs, "learning_rate": learning_rate}
    reading = {
        "source": data,
        "validation": dev,
        "test": test,
        "format": file_format,
        "word_column": word_column,
        "label_column": label_column,
        "scheme": scheme,
    }
    changed = _changed(
        load_recipe(recipe, SearchAwareRecipe),
        objective,
        {"normalisation": normalisation, "beam": beam},
        learning,
        reading,
    )
    model = changed["model"] | ({"bidirectional": False} if unidirectional else {})
    report = _trained(changed | {"model": model, "seed": seed}, objective, start, out)
    tell(report.messages)
    from lexergy.report.pages.search_aware import write_sequence_report

    page = write_sequence_report(out)
    if as_json:
        print_json(report)
    else:
        _print(report, page)


def _changed(
    recipe: "SearchAwareRecipe",
    name: str,
    options: dict[str, Any],
    learning: dict[str, Any],
    reading: dict[str, Any],
) -> dict[str, Any]:
    """The recipe with what the command says in place of what it says."""
    if name not in recipe.objectives:
        raise LexergyError(
            f"`--objective` is {name}; expected one of {', '.join(recipe.objectives)}, the objectives of {recipe.name}."
        )
    content = recipe.plain()
    objective = content["objectives"][name]
    objective |= _given(options)
    objective["learning"] |= _given(learning)
    content["data"] = content["data"] | _given(reading)
    return content


def _given(options: dict[str, Any]) -> dict[str, Any]:
    return {
        key: str(value) if hasattr(value, "value") else value for key, value in options.items() if value is not None
    }


def _trained(content: dict[str, Any], objective: str, start: Path | None, out: Path) -> "SequenceReport":
    from lexergy.recipes.loader import checked
    from lexergy.recipes.search_aware import SearchAwareRecipe

    if start is not None:
        from lexergy.tasks.search_aware.training import model_folder

        content["start"] = str(model_folder(start))
        content["objectives"][objective]["start"] = None
    recipe = checked(SearchAwareRecipe, **content)
    from lexergy.tasks.search_aware.training import train_sequences  # seconds to import: after what may be mistaken

    return train_sequences(recipe, objective, out)


def _print(report: "SequenceReport", page: Path) -> None:
    beams = list(report.by_beam["validation"])
    rows = [
        (part, str(report.examples[part]), *(f"{report.by_beam[part][beam]:.2f}" for beam in beams))
        for part in ("validation", "test")
    ]
    title = f"{MEANINGS[report.metric]} in percent, by beam"
    print_table(title, ("", "sentences", *(str(beam) for beam in beams)), rows)
    print_lines(
        f"Learnt from {report.examples['train']} sentences, {report.num_outputs} symbols to write.",
        f"Report: {page}",
        "",
        "Next:",
        f"  {lexergy_command()} seq2seq predict {report.folder} FILE --beam {report.beam}",
        f"  {lexergy_command()} seq2seq evaluate {report.folder} FILE",
    )
