"""Metrics of sequences against counts by hand."""

import math
import random

import pytest
import sacrebleu
from seqeval.metrics import classification_report

from lexergy.core.text_measures.sequence_metrics import (
    are_entities,
    bleu,
    bleu_by_length,
    entity_scores,
    illegal_labels,
    label_accuracy,
)
from lexergy.errors import LexergyError


def rows(*sentences):
    return [sentence.split() for sentence in sentences]


def test_accuracy_counts_words_not_sentences():
    accuracy = label_accuracy(rows("A B C", "A"), rows("A B A", "B"))
    assert (accuracy.correct, accuracy.total, accuracy.value) == (2, 4, 50.0)
    assert label_accuracy([], []).value == 0.0
    with pytest.raises(LexergyError, match=r"2 sentences of 4 labels .* 2 sentences of 3"):
        label_accuracy(rows("A B C", "A"), rows("A B", "A"))


def test_entities_by_hand():
    gold = rows("B-PER I-PER O B-LOC", "B-ORG O O B-LOC", "B-PER O")
    predicted = rows("B-PER I-PER O B-ORG", "B-ORG I-ORG O B-LOC", "O O")
    # PER: 1 of 1 predicted, 1 of 2 gold. LOC: 1 of 1, 1 of 2. ORG: 0 of 2 predicted, 0 of 1 gold.
    scores = entity_scores(gold, predicted)
    assert scores.types["PER"].precision == 100.0
    assert scores.types["PER"].recall == 50.0
    assert scores.types["PER"].f1 == pytest.approx(200 / 3)
    assert scores.types["ORG"].f1 == 0.0
    assert {name: score.gold for name, score in scores.types.items()} == {"PER": 2, "LOC": 2, "ORG": 1}
    assert (scores.overall.precision, scores.overall.recall) == (50.0, 40.0)
    assert scores.overall.f1 == pytest.approx(2 * 50 * 40 / 90)
    assert scores.macro_f1 == pytest.approx((200 / 3 + 200 / 3 + 0) / 3)
    assert scores.illegal == 0


def test_entities_are_seqeval_s():
    generator = random.Random(0)
    labels = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC", "E-LOC", "S-ORG"]
    gold, predicted = ([generator.choices(labels, k=length) for length in range(1, 40)] for _ in range(2))
    scores = entity_scores(gold, predicted)
    report = classification_report(gold, predicted, output_dict=True)
    assert scores.macro_f1 == pytest.approx(100 * report["macro avg"]["f1-score"])
    for name, score in (*scores.types.items(), ("micro avg", scores.overall)):
        expected = [100 * report[name][column] for column in ("precision", "recall", "f1-score")]
        assert [score.precision, score.recall, score.f1] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("predicted", "correct", "count"),
    [
        ("I-PER I-PER O B-LOC", 2, 2),  # an I at the start begins an entity, and the right one
        ("B-LOC I-PER O B-LOC", 1, 3),  # another type: two entities
        ("B-PER O I-LOC I-LOC", 0, 2),  # after O: an entity of two words
        ("B-PER B-PER O B-LOC", 1, 3),  # legal: two entities of one word
    ],
)
def test_illegal_labels_are_read_as_conlleval_reads_them(predicted, correct, count):
    scores = entity_scores(rows("B-PER I-PER O B-LOC"), rows(predicted))
    assert scores.overall.precision == pytest.approx(100 * correct / count)
    assert scores.overall.recall == 100 * correct / 2


def test_entities_do_not_reach_into_the_next_sentence():
    assert entity_scores(rows("B-PER", "B-PER"), rows("B-PER", "I-PER")).overall.f1 == 100.0


def test_illegal_labels_are_counted():
    assert illegal_labels(["I-PER", "I-PER", "O", "I-LOC", "B-LOC", "I-PER", "I-PER"]) == 3
    assert illegal_labels(["B-PER", "I-PER", "I-PER", "B-PER", "O"]) == 0


def test_nothing_to_find():
    scores = entity_scores(rows("O O"), rows("O O"))
    assert (scores.overall.f1, scores.types) == (0.0, {})
    assert entity_scores(rows("O B-X"), rows("O O")).overall.f1 == 0.0


def test_labels_that_are_no_entities():
    assert are_entities(["O", "B-PER", "I-PER"])
    assert not are_entities(["O", "NOUN", "B-PER"])
    assert not are_entities(["O"])
    with pytest.raises(LexergyError, match="predicted label 'NOUN' is none of an entity"):
        entity_scores(rows("O B-PER"), rows("O NOUN"))


def test_bleu_by_hand():
    # 1-grams 5 of 6, 2-grams 3 of 5, 3-grams 2 of 4, 4-grams 1 of 3; 6 words for 7.
    score = bleu(rows("the cat sat on a mat"), rows("the cat sat on the old mat"))
    assert score.precisions == pytest.approx((100 * 5 / 6, 60, 50, 100 / 3))
    assert score.length_ratio == pytest.approx(6 / 7)
    assert score.brevity_penalty == pytest.approx(math.exp(1 - 7 / 6))
    assert score.value == pytest.approx(100 * math.exp(1 - 7 / 6) * (5 / 6 * 0.6 * 0.5 / 3) ** 0.25)


def test_words_are_taken_as_they_are():
    hypotheses, references = rows("he didn't go,did he ?", "a b c d"), rows("he didn't go,have he ?", "a b c e")
    expected = sacrebleu.corpus_bleu(
        [" ".join(words) for words in hypotheses], [[" ".join(words) for words in references]], tokenize="none"
    )
    assert bleu(hypotheses, references).value == pytest.approx(expected.score)
    with pytest.raises(LexergyError, match="2 hypotheses and 1 references"):
        bleu(hypotheses, references[:1])


def test_bleu_by_length_of_the_source():
    hypotheses = rows("a b c d", "a b c d e", "x x x x", "f g h i")
    references = rows("a b c d", "a b c d e", "f g h i", "f g h i")
    scores = bleu_by_length(hypotheses, references, [20, 21, 30, 41])
    assert list(scores) == ["1-20", "21-30", "over 40"]
    assert [score.sentences for score in scores.values()] == [1, 2, 1]
    assert scores["1-20"].value == pytest.approx(100)
    assert scores["21-30"] == bleu(hypotheses[1:3], references[1:3])
    assert list(bleu_by_length(hypotheses, references, [4, 5, 6, 10], ends=(5, 9))) == ["1-5", "6-9", "over 9"]
