"""`lexergy seq2seq evaluate`: how much of what a trained model writes is right."""

from typing import Annotated

import typer

from lexergy.cli.options import Json
from lexergy.cli.render import print_json, print_table
from lexergy.cli.verbs.seq2seq.options import (
    Alpha,
    FileFormat,
    LabelColumn,
    LengthPenalty,
    ModelFolder,
    Normalisation,
    WordColumn,
    tell,
)
from lexergy.cli.verbs.seq2seq.train import MEANINGS
from lexergy.errors import LexergyError

Source = Annotated[
    str, typer.Argument(metavar="FILE", help="Labelled sentences, or pairs of sentences separated by a tab.")
]
Beams = Annotated[list[int] | None, typer.Option("--beam", help="Beam of a search; give it again for several.")]


def evaluate(
    model: ModelFolder,
    source: Source,
    beams: Beams = None,
    normalisation: Normalisation = None,
    length_penalty: LengthPenalty = 0.0,
    alpha: Alpha = None,
    file_format: FileFormat = None,
    word_column: WordColumn = None,
    label_column: LabelColumn = None,
    as_json: Json = False,
) -> None:
    """Accuracy of labels, F1 of entities, or BLEU, by beam.

    Labels that training never met count as wrong, and are named on stderr.

    Examples:

    \b
      lexergy seq2seq evaluate runs/tagger test.conll
      lexergy seq2seq evaluate runs/tagger test.conll --beam 3 --beam 10 --normalisation global
    """
    beams = beams or [1, 3, 5]
    if min(beams) < 1:
        raise LexergyError(f"`--beam` is {min(beams)}; expected at least 1; 1 is greedy search.")
    from lexergy.recipes.loader import checked
    from lexergy.recipes.search_aware import SearchRecipe
    from lexergy.tasks.search_aware.prediction import evaluate_file
    from lexergy.tasks.search_aware.training import load_sequence_model

    scoring = {"normalisation": normalisation, "length_penalty": length_penalty, "alpha": alpha}
    searches = [checked(SearchRecipe, beam=beam, **scoring) for beam in beams]
    layout = {"format": file_format, "word_column": word_column, "label_column": label_column}
    evaluation = evaluate_file(load_sequence_model(model), source, searches, **layout)
    tell(evaluation.messages)
    if as_json:
        print_json(evaluation)
        return
    details = [
        name for name, value in evaluation.judgements[0].details.items() if isinstance(value, float) and name != "value"
    ]
    rows = [
        (
            str(judgement.search.beam),
            f"{judgement.value:.2f}",
            *(f"{judgement.details[name]:.2f}" for name in details),
        )
        for judgement in evaluation.judgements
    ]
    meaning = MEANINGS[evaluation.judgements[0].metric]
    columns = ("beam", meaning, *(name.replace("_", " ") for name in details))
    print_table(f"On {evaluation.sentences} sentences, in percent", columns, rows)
