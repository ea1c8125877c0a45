"""`lexergy seq2seq predict`: what a trained tagger or translator writes."""

from typing import Annotated

import typer

from lexergy.cli.options import Json, at_least
from lexergy.cli.render import print_json, print_lines, visible
from lexergy.cli.verbs.seq2seq.options import (
    Alpha,
    FileFormat,
    LengthPenalty,
    ModelFolder,
    Normalisation,
    WordColumn,
    tell,
)

Source = Annotated[
    str, typer.Argument(metavar="FILE", help="A file like those it learnt from, labels or not; sentences to translate.")
]
Beam = Annotated[
    int, typer.Option("--beam", help="Beam of the search; 1 is greedy.", callback=at_least(1, "1 is greedy search"))
]


def predict(
    model: ModelFolder,
    source: Source,
    beam: Beam = 1,
    normalisation: Normalisation = None,
    length_penalty: LengthPenalty = 0.0,
    alpha: Alpha = None,
    file_format: FileFormat = None,
    word_column: WordColumn = None,
    as_json: Json = False,
) -> None:
    """A label for each word, as word, tab, label and an empty line after each sentence; or a translation for each line.

    Sentences that cannot be read are named on stderr, and left out.

    Examples:

    \b
      lexergy seq2seq predict runs/tagger new.conll --beam 5 > tagged.tsv
      lexergy seq2seq predict runs/de-en german.txt --beam 5 --length-penalty 1
    """
    from lexergy.recipes.loader import checked
    from lexergy.recipes.search_aware import SearchRecipe
    from lexergy.tasks.search_aware.prediction import predict_file
    from lexergy.tasks.search_aware.training import load_sequence_model

    trained = load_sequence_model(model)
    search = checked(SearchRecipe, beam=beam, normalisation=normalisation, length_penalty=length_penalty, alpha=alpha)
    predicted, messages = predict_file(trained, source, search, format=file_format, word_column=word_column)
    tell(messages)
    if as_json:
        print_json(predicted)
    elif trained.model.config.end_symbol is not None:
        print_lines(*(visible(" ".join(prediction.outputs)) for prediction in predicted))
    else:
        for prediction in predicted:
            pairs = zip(prediction.words, prediction.outputs, strict=True)
            print_lines(*(f"{visible(word)}\t{visible(label)}" for word, label in pairs), "")
