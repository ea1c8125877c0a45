import pytest

from lexergy.data.detection.plain_text import plain_text, whole_sentences


@pytest.mark.parametrize(
    ("stored", "plain"),
    [
        ("two\n\nparagraphs\r\n and\ttabs ", "two paragraphs and tabs"),
        ("“It’s” – she said—‘no’…", "\"It's\" - she said-'no'..."),
        ("ﬁne\u00a0print", "fine print"),
        ("cafe\u0301", "café"),
        ("a\x00b\x1b[31mc\u200bd\ufeff\ufffd", "a b [31mc d"),
        ("He did n't say `` no '' , did he ?", 'He didn\'t say " no ", did he?'),
        ("1 @,@ 000 ( or so ) twenty @-@ one", "1,000 (or so) twenty-one"),
        ("", ""),
    ],
)
def test_storage_leaves_no_trace(stored, plain):
    assert plain_text(stored) == plain


def test_plain_text_is_left_alone():
    text = 'A plain text (of the 2nd kind): it\'s "quoted" - and ends here. 50% of it'
    assert plain_text(text) == text
    assert plain_text(plain_text("“a” ,\n b")) == plain_text("“a” ,\n b")


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("One is whole. Two is whole! The third was cut o", "One is whole. Two is whole!"),
        ('He said "so it is." And th', 'He said "so it is."'),
        ("Short. But what follows has no end and is more than half of it", None),
        ("no end at all", None),
        ("It rose 1.5 per cent to 3.4 whi", None),
    ],
)
def test_only_a_short_fragment_is_cut(text, kept):
    assert whole_sentences(text) == (kept or text)
