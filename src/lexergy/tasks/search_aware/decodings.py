"""What a model wrote under a search, kept sentence by sentence: any metric and its interval can be had later."""

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from lexergy.core.estimation import corpus
from lexergy.core.estimation.corpus import CorpusMetric
from lexergy.core.text_measures.sequence_metrics import entity_scores
from lexergy.core.text_measures.text_metrics import bleu_of_words
from lexergy.files import atomic_write_text, read_json
from lexergy.models.seq2seq import Seq2Seq
from lexergy.recipes.search_aware import SearchRecipe
from lexergy.tasks.search_aware.examples import Example, Examples

Part = Literal["validation", "test"]
PARTS: tuple[Part, ...] = ("validation", "test")
MetricName = Literal["accuracy", "f1", "macro_f1", "bleu"]
WRITTEN = "written.json"
BLEU_PARTS = 10  # both lengths; matches and totals of four orders

Sentence = Sequence[str]


@dataclass(frozen=True)
class Written:
    """Gold and predicted sequences of S sentences, and how many words each sentence had."""

    source_lengths: Sequence[int]
    gold: Sequence[Sentence]
    predicted: Sequence[Sentence]

    def parts(self, metric: MetricName) -> np.ndarray:  # (S, P)
        """What the metric adds up over sentences."""
        return np.array(_PARTS[metric](self.gold, self.predicted), dtype=float)

    def where(self, shortest: float, longest: float) -> "Written":
        """The sentences of more than `shortest` and at most `longest` words."""
        rows = [row for row, length in enumerate(self.source_lengths) if shortest < length <= longest]
        return Written(
            [self.source_lengths[row] for row in rows],
            [self.gold[row] for row in rows],
            [self.predicted[row] for row in rows],
        )


def metric_function(name: MetricName) -> CorpusMetric:
    """The metric in percent, of added parts."""
    if name == "bleu":
        return bleu_of_words().of_sums
    return {"accuracy": corpus.accuracy, "f1": corpus.micro_f1, "macro_f1": corpus.macro_f1}[name]


def write_decodings(model: Seq2Seq, examples: Examples, search: SearchRecipe, folder: Path) -> None:
    """Decode validation and test sentences."""
    written = {part: model.predict([example.words for example in getattr(examples, part)], search) for part in PARTS}
    atomic_write_text(folder / WRITTEN, json.dumps(written, ensure_ascii=False))


def read_decodings(folder: Path, examples: Examples) -> dict[Part, Written]:
    """What `write_decodings` wrote, beside the gold sequences."""
    content = read_json(folder / WRITTEN, dict)
    return {part: beside_gold(getattr(examples, part), content[part]) for part in PARTS}


def beside_gold(examples: Sequence[Example], predicted: Sequence[Sentence]) -> Written:
    return Written([len(example.words) for example in examples], [example.outputs for example in examples], predicted)


def most_frequent_labels(examples: Examples) -> dict[Part, Written]:
    """A baseline without context: each word has the label that it has most often in training, an unknown word the
    most frequent label of words that training has once."""
    labels: dict[str, Counter[str]] = defaultdict(Counter)
    for example in examples.train:
        for word, label in zip(example.words, example.outputs, strict=True):
            labels[word.lower()][label] += 1
    rare = Counter(label for counts in labels.values() if counts.total() == 1 for label in counts)
    unknown = (rare or sum(labels.values(), Counter())).most_common(1)[0][0]
    best = {word: counts.most_common(1)[0][0] for word, counts in labels.items()}

    def predicted(part: Sequence[Example]) -> list[list[str]]:
        return [[best.get(word.lower(), unknown) for word in example.words] for example in part]

    return {part: beside_gold(getattr(examples, part), predicted(getattr(examples, part))) for part in PARTS}


def _accuracy_parts(gold: Sequence[Sentence], predicted: Sequence[Sentence]) -> list[tuple[int, int]]:
    pairs = zip(gold, predicted, strict=True)
    return [(sum(map(str.__eq__, right, guess)), len(right)) for right, guess in pairs]


def _entity_parts(gold: Sequence[Sentence], predicted: Sequence[Sentence]) -> list[list[int]]:
    """Right, predicted and gold entities of each type that occurs in gold or predicted labels."""
    types = list(entity_scores(gold, predicted).types)
    rows = []
    for sentence in zip(gold, predicted, strict=True):
        scores = entity_scores(*([labels] for labels in sentence)).types
        counts = [scores.get(name) for name in types]
        rows.append([n for own in counts for n in ((own.correct, own.predicted, own.gold) if own else (0, 0, 0))])
    return rows


def _bleu_parts(gold: Sequence[Sentence], predicted: Sequence[Sentence]) -> np.ndarray:  # (S, 10)
    statistics = bleu_of_words().statistics
    pairs = zip(gold, predicted, strict=True)
    rows = [statistics([" ".join(guess)], " ".join(right)).numpy() for right, guess in pairs]
    return np.concatenate([np.zeros((0, BLEU_PARTS)), *rows])


_PARTS: dict[MetricName, Callable[[Sequence[Sentence], Sequence[Sentence]], list | np.ndarray]] = {
    "accuracy": _accuracy_parts,
    "f1": _entity_parts,
    "macro_f1": _entity_parts,
    "bleu": _bleu_parts,
}
