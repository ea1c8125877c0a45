"""Metrics of predicted sequences, in percent: accuracy of labels, F1 of entities, BLEU and what it is made of."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from lexergy.errors import LexergyError

OUTSIDE = "O"
BEGINNINGS = ("B-", "I-", "E-", "S-")
LENGTHS = (20, 30, 40)  # Table 5.6, Goyal 2021


@dataclass(frozen=True)
class Accuracy:
    correct: int
    total: int

    @property
    def value(self) -> float:
        return 100 * self.correct / self.total if self.total else 0.0


@dataclass(frozen=True)
class EntityScore:
    """Of entities of one type, or of all; a precision or recall of nothing is 0."""

    correct: int
    predicted: int
    gold: int

    @property
    def precision(self) -> float:
        return 100 * self.correct / self.predicted if self.predicted else 0.0

    @property
    def recall(self) -> float:
        return 100 * self.correct / self.gold if self.gold else 0.0

    @property
    def f1(self) -> float:
        total = self.predicted + self.gold
        return 200 * self.correct / total if total else 0.0


@dataclass(frozen=True)
class EntityScores:
    types: dict[str, EntityScore]  # those that occur in gold or predicted labels
    illegal: int  # predicted labels I-X that follow neither B-X nor I-X

    @property
    def overall(self) -> EntityScore:
        """All entities alike (micro), as conlleval prints it."""
        counts = [(score.correct, score.predicted, score.gold) for score in self.types.values()]
        return EntityScore(*(sum(column) for column in zip(*counts, strict=True))) if counts else EntityScore(0, 0, 0)

    @property
    def macro_f1(self) -> float:
        """All types alike: the mean of their F1 (Table 4.2, Goyal 2021)."""
        return sum(score.f1 for score in self.types.values()) / len(self.types) if self.types else 0.0


@dataclass(frozen=True)
class BleuScore:
    """sacreBLEU's: brevity penalty times the geometric mean of n-gram precisions; `length_ratio` is hypothesis to
    reference."""

    value: float
    precisions: tuple[float, ...]
    brevity_penalty: float
    length_ratio: float
    sentences: int


def label_accuracy(gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> Accuracy:
    """The share of labels that are right: what is left of the Hamming loss. A label unknown to the model is wrong."""
    _check_lengths(gold, predicted)
    pairs = [pair for sentence in zip(gold, predicted, strict=True) for pair in zip(*sentence, strict=True)]
    return Accuracy(sum(right == guess for right, guess in pairs), len(pairs))


def are_entities(labels: Iterable[str]) -> bool:
    """Whether all labels are those of entities, O or B-X, I-X, E-X, S-X, and not all of them O."""
    distinct = set(labels) - {OUTSIDE}
    return bool(distinct) and all(label.startswith(BEGINNINGS) for label in distinct)


def entity_scores(gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> EntityScores:
    """Precision, recall and F1 of entities, which seqeval reads in the mode that is conlleval's.

    An entity is right if its type and both ends are. Labels that IOB2 does not allow are read as conlleval reads them:
    an I-X after O, at the start of a sentence or after another type begins an entity.
    """
    _check_lengths(gold, predicted)
    right, guessed = _entities(gold, "gold"), _entities(predicted, "predicted")
    counts = [Counter(entity[0] for entity in entities) for entities in (right & guessed, guessed, right)]
    types = sorted(set(counts[1]) | set(counts[2]))
    scores = {name: EntityScore(*(count[name] for count in counts)) for name in types}
    return EntityScores(scores, illegal=sum(map(illegal_labels, predicted)))


def illegal_labels(labels: Sequence[str]) -> int:
    """How many labels I-X follow neither B-X nor I-X, which IOB2 does not allow."""
    return sum(
        label.startswith("I-") and not (before.startswith(("B-", "I-")) and before[2:] == label[2:])
        for before, label in pairwise([OUTSIDE, *labels])
    )


def bleu(hypotheses: Sequence[Sequence[str]], references: Sequence[Sequence[str]]) -> BleuScore:
    """BLEU of words as they are, by sacreBLEU without a tokenisation of its own (`-tok none`)."""
    if len(hypotheses) != len(references) or not references:
        raise LexergyError(
            f"there are {len(hypotheses)} hypotheses and {len(references)} references; expected as many of both, and "
            "at least one."
        )
    from sacrebleu.metrics.bleu import BLEU

    score: Any = BLEU(tokenize="none", force=True).corpus_score(
        [" ".join(words) for words in hypotheses], [[" ".join(words) for words in references]]
    )
    return BleuScore(score.score, tuple(score.precisions), score.bp, score.ratio, len(references))


def bleu_by_length(
    hypotheses: Sequence[Sequence[str]],
    references: Sequence[Sequence[str]],
    source_lengths: Sequence[int],
    ends: Sequence[int] = LENGTHS,
) -> dict[str, BleuScore]:
    """BLEU of sentences whose sources have 1-20 words, 21-30, 31-40, or more (Table 5.6, Goyal 2021).

    `ends` are the longest lengths of the groups; groups without sentences are left out.
    """
    scores = {}
    for shortest, longest in pairwise([0, *ends, None]):
        assert shortest is not None
        rows = [
            row
            for row, length in enumerate(source_lengths)
            if length > shortest and (longest is None or length <= longest)
        ]
        name = f"over {shortest}" if longest is None else f"{shortest + 1}-{longest}"
        if rows:
            scores[name] = bleu([hypotheses[row] for row in rows], [references[row] for row in rows])
    return scores


def _entities(sentences: Sequence[Sequence[str]], name: str) -> set[tuple[str, int, int]]:
    """Type, first and last position of each entity, positions counted through all sentences."""
    strange = {label for labels in sentences for label in labels if not label.startswith(BEGINNINGS)} - {OUTSIDE}
    if strange:
        raise LexergyError(
            f"the {name} label {min(strange)!r} is none of an entity; expected O, or B- or I- and a type; score other "
            "labels by their accuracy."
        )
    from seqeval.metrics.sequence_labeling import get_entities

    return set(get_entities([list(labels) for labels in sentences]))


def _check_lengths(gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> None:
    lengths, predicted_lengths = list(map(len, gold)), list(map(len, predicted))
    if lengths != predicted_lengths:
        raise LexergyError(
            f"{len(gold)} sentences of {sum(lengths)} labels were to be predicted and {len(predicted)} sentences of "
            f"{sum(predicted_lengths)} were; expected a label for each word."
        )
