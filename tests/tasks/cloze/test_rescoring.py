"""Rescoring with a scorer whose scores are known, so that every choice can be worked out."""

import math

import jiwer
import pytest

from lexergy.core.rescoring import Weight
from lexergy.data.nbest import Hypothesis, Utterance
from lexergy.errors import LexergyError
from lexergy.models.scoring.scorer import TextScore
from lexergy.tasks.cloze import rescoring as task

WORDS = {"right": -1.0, "wrong": -8.0, "odd": -4.0}
FREQUENCIES = {"right": -1.0, "wrong": -2.0, "odd": -3.5}


class WordScorer:
    """A score for each word, and how frequent it is; remembers what it read."""

    kind, passes, edition = "toy", "1", ""

    def __init__(self):
        self.read = []

    def score(self, texts):
        self.read += texts
        scores = [tuple(WORDS[word] for word in text.split()) for text in texts]
        return [TextScore(found, ((0, 0),) * len(found), 2 if len(found) > 3 else 1) for found in scores]

    def log_frequencies(self, texts):
        return [[FREQUENCIES[word] for word in text.split()] for text in texts]


@pytest.fixture(autouse=True)
def toy_scorer(own_cache, monkeypatch):
    monkeypatch.setattr(task, "load_scorer", lambda source: WordScorer())


def utterance(number, *hypotheses, reference="right right"):
    return Utterance(f"u{number}", tuple(Hypothesis(text, score) for text, score in hypotheses), reference)


def some(count):
    """The first pass prefers the wrong one by .7, which a weight above .1 puts right."""
    return [utterance(n, ("right wrong", -1.0), ("right right", -1.7), ("odd", -9.0)) for n in range(count)]


def by_name(result):
    return {system.name: system for system in result.systems}


def test_the_weight_is_chosen_on_dev_and_used_on_test():
    test, dev = [*some(6), utterance(9, ("right right", -1.0), ("right odd", -1.2))], some(3)
    result = task.rescore(test, ["toy"], dev=dev, progress=False)
    systems = by_name(result)
    assert systems["toy"].weights == (Weight(0.15),)  # 7 lambda > .7
    assert (systems["1-best"].dev, systems["oracle"].dev, systems["toy"].dev) == (50.0, 0.0, 0.0)
    assert systems["1-best"].test == pytest.approx(100 * 6 / 14)
    assert systems["toy"].test == 0.0
    assert systems["toy"].against_first_pass.difference == pytest.approx(-100 * 6 / 14)
    assert systems["toy"].against_first_pass.high < 0
    assert (result.num_utterances, result.num_hypotheses, result.warnings) == (7, 20, ())


def test_the_re_ranked_list_loses_nothing_and_has_the_metric_it_says():
    result = task.rescore(some(3), ["toy"], weight=0.5, progress=False)
    first = result.reranked[0]
    assert [each.text for each in first.hypotheses] == ["right right", "right wrong", "odd"]
    assert first.hypotheses[0].score == pytest.approx(-1.7 + 0.5 * -2)
    chosen = [each.hypotheses[0].text for each in result.reranked]
    assert 100 * jiwer.wer(["right right"] * 3, chosen) == by_name(result)["toy"].test
    assert by_name(result)["toy"].dev is None


def test_an_empty_hypothesis_takes_the_worst_score_of_its_utterance():
    """Else its score of 0, a sum over no tokens, would make silence the likeliest text of all."""
    test = [utterance(5, ("right odd", -1.0), ("", -1.1), ("wrong", -2.0))]
    result = task.rescore(test, ["toy"], weight=0.1, progress=False)
    assert [each.text for each in result.reranked[0].hypotheses] == ["right odd", "", "wrong"]
    assert result.reranked[0].hypotheses[1].score == pytest.approx(-1.1 + 0.1 * -8)
    (warning,) = result.warnings
    assert "u5 (hypothesis 2) of the test list: empty" in warning


def test_utterances_of_nothing_but_silence_keep_their_first_pass():
    result = task.rescore([utterance(5, ("", -2.0), (" ", -1.0))], ["toy"], weight=1.0, progress=False)
    assert [each.score for each in result.reranked[0].hypotheses] == [-1.0, -2.0]


def test_a_missing_reference_is_named_and_not_counted():
    test = [*some(2), utterance(7, ("right wrong", -1.0), ("right right", -1.7), reference=None)]
    result = task.rescore(test, ["toy"], dev=some(1), progress=False)
    assert by_name(result)["1-best"].test == 50.0
    assert "u7 of the test list: no reference" in result.warnings[0]
    assert result.reranked[2].hypotheses[0].text == "right right"


def test_without_any_reference_a_list_is_re_ranked_all_the_same():
    test = [utterance(1, ("wrong", -1.0), ("right", -1.2), reference=None)]
    result = task.rescore(test, ["toy"], dev=some(1), progress=False)
    assert result.reranked[0].hypotheses[0].text == "right"
    assert by_name(result)["toy"].test is None
    with pytest.raises(LexergyError, match="no utterance of the dev list has a reference"):
        task.rescore(some(1), ["toy"], dev=test, progress=False)


def test_many_odd_hypotheses_are_named_by_the_first_few():
    long = [utterance(n, ("right right right right", -1.0)) for n in range(5)]
    (warning,) = task.rescore(long, ["toy"], weight=1.0, progress=False).warnings
    assert warning.startswith(
        "u0 (hypothesis 1), u1 (hypothesis 1), u2 (hypothesis 1) and 2 more of the test list: longer"
    )


def test_lists_of_different_lengths():
    """The second utterance has one hypothesis: what is not there is never chosen, by the oracle either."""
    test = [*some(1), utterance(2, ("wrong wrong", -30.0))]
    systems = by_name(task.rescore(test, ["toy"], dev=some(1), progress=False))
    assert systems["oracle"].test == pytest.approx(50.0)
    assert systems["toy"].test == pytest.approx(50.0)


def test_two_models_are_compared(monkeypatch):
    class Opposite(WordScorer):
        def score(self, texts):
            return [
                TextScore(tuple(-8 - value for value in each.log_scores), each.spans) for each in super().score(texts)
            ]

    monkeypatch.setattr(task, "load_scorer", lambda source: WordScorer() if source == "toy" else Opposite())
    systems = by_name(task.rescore(some(8), ["toy", "other"], weight=0.2, progress=False))
    assert systems["toy"].against_first_model is None
    assert systems["other"].against_first_model.difference == pytest.approx(50.0)
    assert math.isclose(systems["other"].test, 50.0)


def test_bleu_has_no_oracle_and_is_better_when_higher():
    test = [utterance(1, ("wrong odd", -1.0), ("right right right right", -1.1), reference="right right right right")]
    result = task.rescore(test, ["toy"], dev=test, metric="bleu", progress=False)
    systems = by_name(result)
    assert "oracle" not in systems
    assert systems["toy"].test == pytest.approx(100.0)
    assert systems["1-best"].test == pytest.approx(0.0)


def test_exactly_one_of_dev_and_weight():
    for settings in ({}, {"dev": some(1), "weight": 0.5}):
        with pytest.raises(LexergyError, match="expected exactly one of them"):
            task.rescore(some(1), ["toy"], progress=False, **settings)


def scorers(monkeypatch, **by_name):
    monkeypatch.setattr(task, "load_scorer", by_name.__getitem__)
    return by_name


class Oddity(WordScorer):
    """Likes nothing but odd words."""

    def score(self, texts):
        self.read += texts
        scores = [tuple(-1.0 if word == "odd" else -6.0 for word in text.split()) for text in texts]
        return [TextScore(found, ((0, 0),) * len(found)) for found in scores]


def rare(count):
    """Right is `odd`, a rare word: its score alone does not tell it from `right`, its score for its frequency does."""
    return [utterance(n, ("right", -1.0), ("odd", -1.3), reference="odd") for n in range(count)]


def test_the_share_of_the_frequencies_is_chosen_on_dev_too():
    """odd - right is -3 + 2.5 mu: negative up to mu = 1, where nothing helps, unless frequencies count for more."""
    plain, chosen = (
        task.rescore(some(4) + rare(4), ["toy"], dev=some(4) + rare(4), relative=relative, progress=False)
        for relative in (0.0, "auto")
    )
    assert by_name(plain)["toy"].weights == (Weight(0.15),)
    assert by_name(chosen)["toy"].weights[0].frequencies in (0.0, 0.25, 0.5, 0.75, 1.0)
    assert by_name(chosen)["toy"].dev <= by_name(plain)["toy"].dev
    given = by_name(task.rescore(rare(2), ["toy"], weight=1.0, relative=1.5, progress=False))["toy"]
    assert given.weights == (Weight(1.0, 1.5),)
    assert given.test == 0.0  # -1.3 - 4 + 5.25 against -1 - 1 + 1.5
