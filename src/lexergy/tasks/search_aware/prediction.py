"""What a trained tagger or translator writes for the sentences of a file, and how much of it is right."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from lexergy.data.tagging.files import Layout
from lexergy.models.seq2seq import Seq2Seq
from lexergy.recipes.search_aware import SearchRecipe
from lexergy.tasks.search_aware.examples import ReadFile, read_sentences, read_tagged, read_translations
from lexergy.tasks.search_aware.judging import Judgement, judge, unknown_labels


class Prediction(NamedTuple):
    place: str
    words: tuple[str, ...]
    outputs: list[str]


class Predictions(NamedTuple):
    predictions: list[Prediction]
    messages: list[str]


class Evaluation(NamedTuple):
    """Judgements under each search, of as many sentences."""

    sentences: int
    judgements: list[Judgement]
    messages: list[str]


def predict_file(model: Seq2Seq, source: str, search: SearchRecipe, **layout: Any) -> Predictions:
    """A prediction for each sentence that can be read; messages name the others.

    Files of tagged sentences are read as in training, apart from what is given of `Layout`.
    """
    file = _read(model, source, layout, labelled=False)
    outputs = model.predict([example.words for example in file.examples], search)
    pairs = zip(file.examples, outputs, strict=True)
    return Predictions([Prediction(example.place, example.words, written) for example, written in pairs], file.messages)


def evaluate_file(model: Seq2Seq, source: str, searches: Sequence[SearchRecipe], **layout: Any) -> Evaluation:
    """The metric under each search; labels that training never met count as wrong."""
    file = _read(model, source, layout, labelled=True)
    judgements = [judge(model, file.examples, search) for search in searches]
    return Evaluation(len(file.examples), judgements, [*file.messages, *unknown_labels(model, file.examples)])


def _read(model: Seq2Seq, source: str, layout: Mapping[str, Any], *, labelled: bool) -> ReadFile:
    if model.model.config.end_symbol is not None:
        return read_translations(source) if labelled else read_sentences(source)
    given = {key: value for key, value in layout.items() if value is not None}
    settings = {**(model.model.config.layout or {}), **given, "labelled": labelled}
    if not labelled and settings.get("format") == "composed":  # words of CoNLL-U, whatever else its columns say
        settings["format"] = "conll"
    return read_tagged(source, Layout(**settings))
