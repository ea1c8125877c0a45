"""Many texts: each is scored once for a model, whatever list it comes in, and a killed run goes on."""

import ctypes
import platform
from pathlib import Path

import pytest

from lexergy.errors import LexergyError
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
def small_batches(own_cache, monkeypatch):
    monkeypatch.setattr(scoring, "TEXTS_AT_ONCE", 3)


def scored(scorer, texts=TEXTS, source="model"):
    return scoring.score_texts(scorer, source, texts, progress=False)


def test_scores_come_in_the_order_of_the_texts():
    scores = scored(LetterScorer())
    assert scores.log_scores.tolist() == [-len(text) for text in TEXTS]
    assert scores.num_tokens.tolist() == [len(text) for text in TEXTS]
    assert scores.num_pieces.tolist() == [1] * len(TEXTS)
    assert scored(LetterScorer(), []).log_scores.tolist() == []


def test_equal_texts_are_scored_once():
    scorer = LetterScorer()
    scored(scorer)
    assert scorer.asked == ["b", "a", "", "cc", "ddd"]


def test_scores_kept_from_before_a_model_was_scored_in_another_way_are_not_used():
    scored(LetterScorer())
    again, anew = LetterScorer(), LetterScorer()
    anew.edition = "special tokens are no values"
    for scorer in (again, anew):
        scored(scorer)
    assert (again.asked, anew.asked) == ([], ["b", "a", "", "cc", "ddd"])


def test_after_a_kill_nothing_is_lost_and_nothing_scored_twice():
    killed, again = LetterScorer(fail_at="cc"), LetterScorer()
    with pytest.raises(KeyboardInterrupt):
        scored(killed)
    assert killed.asked == ["b", "a"]
    assert scored(again).log_scores.tolist() == [-len(text) for text in TEXTS]
    assert again.asked == ["", "cc", "ddd"]
    third = LetterScorer()
    scored(third)
    assert third.asked == []


def test_another_model_scores_anew():
    scored(LetterScorer())
    scorer = LetterScorer()
    scored(scorer, source="other")
    assert len(scorer.asked) == 5


def test_a_list_in_another_order_or_with_some_of_the_texts_finds_all_scores():
    scored(LetterScorer())
    for texts, missing in ((TEXTS[::-1], []), (TEXTS[::3], []), (["x", *TEXTS[2:], "yy"], ["x", "yy"])):
        scorer = LetterScorer()
        assert scored(scorer, texts).log_scores.tolist() == [-len(text) for text in texts]
        assert scorer.asked == missing


def test_what_is_read_again_is_what_was_scored():
    text = "caf\udce9 a"  # a byte that was no UTF-8
    first, again = (
        [
            score
            for batch in scoring.scored_batches(LetterScorer(), "model", [text, "b"], progress=False)
            for score in batch.scores
        ]
        for _ in range(2)
    )
    assert first == again == LetterScorer().score([text, "b"])


def test_a_damaged_store_says_what_to_remove(own_cache):
    scored(LetterScorer())
    (store,) = (own_cache / "scores").glob("*.sqlite")
    store.write_bytes(b"no database at all" * 1000)
    with pytest.raises(LexergyError, match="remove that file"):
        scored(LetterScorer())


def test_a_model_that_was_trained_again_is_another(tmp_path):
    model = tmp_path / "model"
    model.mkdir()
    for content in ("first", "second"):
        (model / "weights").write_text(content)
        scorer = LetterScorer()
        scored(scorer, source=str(model))
        assert scorer.asked


def test_scores_relative_to_frequencies_come_from_the_same_store():
    scored(LetterScorer())
    scorer = LetterScorer()
    batches = scoring.scored_batches(scorer, "model", TEXTS, relative=True, progress=False)
    assert [score.log_score for batch in batches for score in batch.scores] == [-0.5, 2.0, -0.5, 0.0, -1.0, 2.0, -1.5]
    assert scorer.asked == []
    assert scored(scorer).log_scores.tolist() == [-len(text) for text in TEXTS]  # what is kept is as it was


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="others give memory back by themselves")
def test_memory_does_not_grow_with_the_number_of_texts():
    def resident():
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

    before = resident()
    scored(HoleyScorer(), ["a", "b", "c"])  # 80 MB of holes
    assert resident() - before < 30e6
