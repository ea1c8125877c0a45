"""Many texts: shards are computed once, equal texts are scored once, a killed run goes on."""

import ctypes
import platform
from pathlib import Path

import pytest

from lexergy.models.scoring.scorer import TextScore
from lexergy.tasks.cloze import scoring

TEXTS = ["b", "a", "b", "", "cc", "a", "ddd"]


class HoleyScorer:
    """Leaves a heap full of holes: what it frees lies between what it keeps."""

    edition = ""

    def __init__(self):
        self.kept = []

    def score(self, texts):
        libc = ctypes.CDLL(None)
        libc.malloc.restype = ctypes.c_void_p
        freed = []
        for _ in range(4000):
            freed.append(libc.malloc(20_000))
            ctypes.memset(freed[-1], 1, 20_000)
            self.kept.append(libc.malloc(64))
        for block in freed:
            libc.free(ctypes.c_void_p(block))
        return [TextScore((-1.0,), ((0, 1),)) for _ in texts]


class LetterScorer:
    """-1 for each letter; remembers what it was asked, and fails when told to."""

    edition = ""

    def __init__(self, fail_at=None):
        self.asked = []
        self.fail_at = fail_at

    def score(self, texts):
        if self.fail_at in texts:
            raise KeyboardInterrupt
        self.asked += texts
        spans = [tuple((place, place + 1) for place in range(len(text))) for text in texts]
        return [TextScore((-1.0,) * len(text), found) for text, found in zip(texts, spans, strict=True)]

    def log_frequencies(self, texts):
        return [[-3.0 if letter == "a" else -0.5 for letter in text] for text in texts]


@pytest.fixture(autouse=True)
def small_shards(own_cache, monkeypatch):
    monkeypatch.setattr(scoring, "TEXTS_PER_SHARD", 3)


def scored(scorer, texts=TEXTS, source="model"):
    return scoring.score_texts(scorer, source, texts, progress=False)


def test_scores_come_in_the_order_of_the_texts():
    scores = scored(LetterScorer())
    assert scores.log_scores.tolist() == [-len(text) for text in TEXTS]
    assert scores.num_tokens.tolist() == [len(text) for text in TEXTS]
    assert scores.num_pieces.tolist() == [1] * len(TEXTS)
    assert scored(LetterScorer(), []).log_scores.tolist() == []


def test_equal_texts_of_a_shard_are_scored_once():
    scorer = LetterScorer()
    scored(scorer)
    assert scorer.asked == ["b", "a", "", "cc", "a", "ddd"]


def test_scores_kept_from_before_a_model_was_scored_in_another_way_are_not_used():
    scored(LetterScorer())
    again, anew = LetterScorer(), LetterScorer()
    anew.edition = "special tokens are no values"
    for scorer in (again, anew):
        scored(scorer)
    assert (again.asked, anew.asked) == ([], ["b", "a", "", "cc", "a", "ddd"])


def test_after_a_kill_nothing_is_lost_and_nothing_scored_twice():
    killed, again = LetterScorer(fail_at="cc"), LetterScorer()
    with pytest.raises(KeyboardInterrupt):
        scored(killed)
    assert killed.asked == ["b", "a"]
    assert scored(again).log_scores.tolist() == [-len(text) for text in TEXTS]
    assert again.asked == ["", "cc", "a", "ddd"]
    third = LetterScorer()
    scored(third)
    assert third.asked == []


def test_another_model_or_other_texts_are_scored_anew():
    scored(LetterScorer())
    for source, texts, asked in (("other", TEXTS, 6), ("model", ["x", *TEXTS], 8)):
        scorer = LetterScorer()
        scored(scorer, texts, source)
        assert len(scorer.asked) == asked


def test_a_list_that_begins_the_same_is_scored_from_where_it_differs():
    scored(LetterScorer())
    shorter, longer = LetterScorer(), LetterScorer()
    assert scored(shorter, TEXTS[:5]).log_scores.tolist() == [-len(text) for text in TEXTS[:5]]
    assert shorter.asked == ["", "cc"]
    scored(longer, [*TEXTS, "e"])
    assert longer.asked == ["ddd", "e"]


def test_a_model_that_was_trained_again_is_another(tmp_path):
    model = tmp_path / "model"
    model.mkdir()
    for content in ("first", "second"):
        (model / "weights").write_text(content)
        scorer = LetterScorer()
        scored(scorer, source=str(model))
        assert scorer.asked


def test_scores_relative_to_frequencies_come_from_the_same_shards():
    scored(LetterScorer())
    scorer = LetterScorer()
    found = scoring.score_texts(scorer, "model", TEXTS, relative=True, progress=False)
    assert found.log_scores.tolist() == [-0.5, 2.0, -0.5, 0.0, -1.0, 2.0, -1.5]
    assert scorer.asked == []
    assert scored(scorer).log_scores.tolist() == [-len(text) for text in TEXTS]  # what is kept is as it was


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="others give memory back by themselves")
def test_memory_does_not_grow_with_the_number_of_texts():
    def resident():
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

    before = resident()
    scored(HoleyScorer(), ["a", "b", "c"])  # 80 MB of holes
    assert resident() - before < 30e6
