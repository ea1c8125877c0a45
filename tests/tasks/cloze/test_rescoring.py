"""Rescoring with a scorer whose scores are known, so that every choice can be worked out."""

import math

import jiwer
import pytest

from lexergy.core.rescoring import Weight
from lexergy.data.lists.nbest import Hypothesis, Utterance
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
    """`odd odd` is right, of rare words: less likely than `right`, but more so than its frequency says."""
    return [utterance(n, ("right", -1.0), ("odd odd", -1.35), reference="odd odd") for n in range(count)]


def test_the_share_of_the_frequencies_is_chosen_on_dev_too(monkeypatch):
    """Relative scores are 0 for `right`, 2 (-2.5 + 3.5 mu) for `odd odd`: .25 at mu = .75, too little, and 2 at 1."""
    monkeypatch.setitem(WORDS, "odd", -2.5)
    monkeypatch.setitem(WORDS, "right", 0.0)
    monkeypatch.setitem(FREQUENCIES, "right", 0.0)
    plain, chosen = (
        by_name(task.rescore(rare(4), ["toy"], dev=rare(3), relative=relative, progress=False))["toy"]
        for relative in (0.0, "auto")
    )
    assert (plain.test, plain.weights) == (100.0, (Weight(0.05),))
    assert (chosen.test, chosen.weights) == (0.0, (Weight(0.2, 1.0),))  # 2 lambda > .35
    given = by_name(task.rescore(rare(2), ["toy"], weight=1.0, relative=1.0, progress=False))["toy"]
    assert (given.test, given.weights) == (0.0, (Weight(1.0, 1.0),))


def test_a_cascade_reads_only_the_best_of_what_came_before(monkeypatch):
    """The cheap model puts `odd` last, and the dear one, which would prefer it, never reads it."""
    models = scorers(monkeypatch, cheap=WordScorer(), dear=Oddity())
    test, dev = some(4), some(3)
    result = task.rescore(test, ["cheap"], then=["dear"], keep=2, dev=dev, progress=False)
    assert [system.name for system in result.systems] == ["1-best", "oracle", "cheap", "dear", "cheap + dear"]
    assert set(models["dear"].read) == {"right wrong", "right right"}
    assert by_name(result)["dear"].num_read == 2 * 7
    together = by_name(result)["cheap + dear"]
    assert (together.test, together.passes, len(together.weights)) == (0.0, "1 + 1", 2)
    assert together.against_first_model.difference == 0
    (first, *_) = result.reranked
    assert [each.text for each in first.hypotheses] == ["right right", "right wrong", "odd"]
    assert [each.score for each in first.hypotheses] == sorted((each.score for each in first.hypotheses), reverse=True)


def test_without_a_model_before_it_a_dear_model_reads_the_best_of_the_first_pass(monkeypatch):
    models = scorers(monkeypatch, dear=Oddity())
    test = [utterance(n, ("wrong", -1.0), ("odd", -1.1), ("right odd", -9.0), reference="odd") for n in range(3)]
    result = task.rescore(test, then=["dear"], keep=2, dev=test, progress=False)
    assert models["dear"].read == ["wrong", "odd"]
    assert [system.name for system in result.systems] == ["1-best", "oracle", "dear"]
    assert by_name(result)["dear"].test == 0.0


def test_a_dear_model_may_read_a_few_utterances_of_dev_and_all_of_test(monkeypatch):
    models = scorers(monkeypatch, cheap=WordScorer(), dear=Oddity())
    dev = [utterance(n, (f"right {'odd ' * n}", -1.0), ("right right", -1.7)) for n in range(6)]
    task.rescore(some(4), ["cheap"], then=["dear"], dev=dev, dev_utterances=2, progress=False)
    assert {text.count("odd") for text in models["dear"].read if "odd" in text} == {1, 3}  # of test, and the 4th of dev
    assert {text.count("odd") for text in models["cheap"].read if "odd" in text} == {1, 2, 3, 4, 5}


def test_several_models_together_are_better_than_each_alone(monkeypatch):
    """One tells `wrong` from `right`, the other one `odd` from `right`: only both choose well everywhere."""

    def liking(**words):
        class Likes(WordScorer):
            def score(self, texts):
                rows = [tuple(words.get(word, -1.0) for word in text.split()) for text in texts]
                return [TextScore(row, ((0, 0),) * len(row)) for row in rows]

        return Likes()

    scorers(monkeypatch, first=liking(wrong=-9.0), second=liking(odd=-9.0))
    test = [utterance(n, (f"right {word}", -1.0), ("right right", -1.7)) for n, word in enumerate(["wrong", "odd"] * 4)]
    systems = by_name(task.rescore(test, ["first", "second"], dev=test, progress=False))
    assert systems["first"].test == systems["second"].test == 25.0
    assert systems["first + second"].test == 0.0
    assert systems["first + second"].weights == (Weight(0.1), Weight(0.1))


def test_speakers_are_known_by_librispeech_s_ids():
    test = [Utterance(f"{n % 2}-12-{n:04}", each.hypotheses, each.reference) for n, each in enumerate(some(8))]
    assert task.rescore(test, ["toy"], dev=some(2), progress=False).resampled == "speakers"
    assert task.rescore(some(8), ["toy"], dev=some(2), progress=False).resampled == "utterances"


def test_more_weights_need_a_dev_list():
    for settings in ({"then": ["toy"]}, {"models": ["toy"], "relative": "auto"}):
        with pytest.raises(LexergyError, match="expected a dev list"):
            task.rescore(some(1), weight=0.5, progress=False, **settings)
