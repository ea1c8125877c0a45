"""Texts of a stream: nobody waits for what is not written yet, and nothing piles up."""

from lexergy.data.texts import PlacedText, Unreadable
from lexergy.errors import LexergyError
from lexergy.models.detection.detector import Detection
from lexergy.tasks.detection import judging
from lexergy.tasks.detection.judging import Question, judge_stream
from lexergy.tasks.detection.opening import OpenDetector


class InBatches:
    """A detector that reads all texts it is given before it says anything of them."""

    def __init__(self):
        self.batches = []

    def detect(self, texts, **how):
        self.batches.append(list(texts))
        for text in self.batches[-1]:
            yield LexergyError("too short") if text == "a" else Detection(0.5, 0.5, 0.0, 9, 1, 1.0, (), text, ())


def stream(monkeypatch, entries):
    monkeypatch.setattr(judging, "arriving_texts", lambda *_, **__: iter(entries))
    detector = InBatches()
    return detector, judge_stream(OpenDetector(detector, None), Question(["-"]))


def test_a_text_is_judged_before_the_next_one_is_written(monkeypatch):
    asked = []

    def entries():
        for number in range(3):
            yield PlacedText(f"-:{number}", f"text {number}")
            asked.append(number)
            yield None

    _, judged = stream(monkeypatch, entries())
    for number in range(3):
        assert next(judged).place == f"-:{number}"
        assert asked == list(range(number + 1))


def test_texts_that_are_there_are_judged_together_but_never_too_many(monkeypatch):
    monkeypatch.setattr(judging, "AT_ONCE", 3)
    refused = Unreadable("x", "no text")
    texts = [PlacedText(str(number), text) for number, text in enumerate(["one", "a", "two", "three", "four"])]
    detector, judged = stream(monkeypatch, [None, refused, *texts, None, None])
    found = list(judged)
    assert detector.batches == [["one", "a"], ["two", "three", "four"]]
    assert [entry.place for entry in found] == ["x", "0", "1", "2", "3", "4"]
    assert [isinstance(entry, Unreadable) for entry in found] == [True, False, True, False, False, False]
