"""Parts of metrics by sentence: added up they are the metric of the whole."""

import pytest

from lexergy.core.text_measures.sequence_metrics import bleu, entity_scores, label_accuracy
from lexergy.tasks.search_aware.decodings import Written, metric_function, most_frequent_labels
from lexergy.tasks.search_aware.examples import Example, Examples

GOLD = [["B-A", "I-A", "O"], ["O", "B-C"], ["B-A"], ["O", "O", "O", "B-C", "I-C"]]
PREDICTED = [["B-A", "I-A", "B-C"], ["O", "O"], ["B-A"], ["O", "B-A", "O", "B-C", "O"]]
ENTITIES = Written([3, 2, 1, 5], GOLD, PREDICTED)


def of_the_whole(written, metric):
    return float(metric_function(metric)(written.parts(metric).sum(0)))


def test_labels_and_entities():
    assert of_the_whole(ENTITIES, "accuracy") == pytest.approx(label_accuracy(GOLD, PREDICTED).value)
    scores = entity_scores(GOLD, PREDICTED)
    assert of_the_whole(ENTITIES, "f1") == pytest.approx(scores.overall.f1)
    assert of_the_whole(ENTITIES, "macro_f1") == pytest.approx(scores.macro_f1)
    assert scores.overall.f1 != pytest.approx(scores.macro_f1)


def test_bleu():
    references = [["the", "cat", "sat", "on", "the", "mat", "."], ["don't", "go", "there", "!", "now"]]
    hypotheses = [["the", "cat", "sat", "on", "a", "mat", "."], ["don't", "go", "there", "now"]]
    written = Written([7, 5], references, hypotheses)
    assert of_the_whole(written, "bleu") == pytest.approx(bleu(hypotheses, references).value)
    short = written.where(0, 5)
    assert short.predicted == [hypotheses[1]]
    assert of_the_whole(short, "bleu") == pytest.approx(bleu(hypotheses[1:], references[1:]).value)
    assert written.where(5, 7).gold == [references[0]]


def test_the_most_frequent_label_of_a_word():
    def example(words, labels):
        return Example("here", tuple(words.split()), tuple(labels.split()))

    train = [example("a dog barks", "D N V"), example("a Dog runs", "D N V"), example("dog sees", "X V")]
    test = [example("A dog sleeps", "D N V")]
    assert most_frequent_labels(Examples(train, test, test, []))["test"].predicted == [["D", "N", "V"]]
