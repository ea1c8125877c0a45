from lexergy.data.corpora import Document
from lexergy.data.overlap import without_overlap, word_ngrams

FORBIDDEN = word_ngrams(["one two three four five six"], size=4)


def document(text):
    return Document(id="d", text=text, group="d")


def test_lines_that_share_words_with_the_test_text_are_left_out():
    """Case and punctuation do not count, and a run may go over the end of a line."""
    text = "All is well.\nThen: One, TWO three -- four!\nAnother line\nthree four\nfive six\nthe end"
    (kept,), removed = without_overlap([document(text)], FORBIDDEN, size=4)
    assert kept.text == "All is well.\nAnother line\nthe end"
    assert removed == 3


def test_shorter_runs_stay_and_nothing_else_is_touched():
    untouched = document("one two three\n\nfive six, seven one")
    (kept,), removed = without_overlap([untouched], FORBIDDEN, size=4)
    assert kept is untouched
    assert removed == 0


def test_a_document_of_nothing_else_goes():
    assert without_overlap([document("two three four five")], FORBIDDEN, size=4) == ([], 1)
