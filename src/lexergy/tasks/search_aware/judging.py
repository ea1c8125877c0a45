"""How well predicted sequences match gold ones: one metric for each kind of task, and what goes with it."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from lexergy.core.text_measures.sequence_metrics import are_entities, bleu, entity_scores, label_accuracy
from lexergy.models.seq2seq import Seq2Seq
from lexergy.models.seq2seq.search import survival
from lexergy.recipes.search_aware import SearchRecipe
from lexergy.tasks.search_aware.examples import Example, words_and_outputs

Metric = Literal["accuracy", "f1", "bleu"]
SHOWN = 3  # unknown labels that are named one by one

Sentences = Sequence[Sequence[str]]


@dataclass(frozen=True)
class Judgement:
    """A model's predictions under one search, in percent; `details` are what the metric is made of."""

    search: SearchRecipe
    metric: Metric
    value: float
    details: dict[str, Any]


def metric_of(model: Seq2Seq) -> Metric:
    """BLEU of translations; F1 of entities where all labels are such; accuracy of any other labels."""
    if model.model.config.end_symbol is not None:
        return "bleu"
    return "f1" if are_entities(model.vocabulary.outputs.symbols) else "accuracy"


def score(metric: Metric, gold: Sentences, predicted: Sentences) -> tuple[float, dict[str, Any]]:
    """The metric's value in percent, and its parts."""
    if metric == "bleu":
        translated = bleu(predicted, gold)
        return translated.value, asdict(translated)
    accuracy = label_accuracy(gold, predicted)
    if metric == "accuracy":
        return accuracy.value, asdict(accuracy)
    entities = entity_scores(gold, predicted)
    types = {name: entity.f1 for name, entity in entities.types.items()}
    overall = entities.overall
    return overall.f1, {
        "precision": overall.precision,
        "recall": overall.recall,
        "macro_f1": entities.macro_f1,
        "accuracy": accuracy.value,
        "types": types,
    }


def judge(model: Seq2Seq, examples: Sequence[Example], search: SearchRecipe) -> Judgement:
    """Predict for all examples, and compare."""
    words, gold = words_and_outputs(examples)
    metric = metric_of(model)
    value, details = score(metric, gold, model.predict(words, search))
    return Judgement(search, metric, value, details)


def fall_off_shares(model: Seq2Seq, examples: Sequence[Example], search: SearchRecipe) -> list[float]:
    """For each step t, the share of the sentences longer than t whose gold prefix has fallen off the beam by then."""
    pairs = model.pairs(*words_and_outputs(examples))
    steps = survival(model.model, pairs, search)
    shares = []
    for step in range(int(pairs.lengths.max())):
        long_enough = pairs.lengths > step
        fallen = (steps <= step) & long_enough & (steps < pairs.lengths)
        shares.append(float(fallen.sum() / long_enough.sum()))
    return shares


def unknown_labels(model: Seq2Seq, examples: Sequence[Example]) -> list[str]:
    """A message for labels that training never met, with the first few and their words; they count as wrong."""
    known = model.vocabulary.outputs.numbers
    if model.model.config.end_symbol is not None:
        return []
    strange = [
        f"{example.place}: {label!r} of {word!r}"
        for example in examples
        for word, label in zip(example.words, example.outputs, strict=True)
        if label not in known
    ]
    if not strange:
        return []
    more = f" and {len(strange) - SHOWN} more" * (len(strange) > SHOWN)
    return [f"warning: labels that training never met count as wrong: {', '.join(strange[:SHOWN])}{more}"]
