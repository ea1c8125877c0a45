"""Sentence pairs as words."""

import pytest

from lexergy.data.translation.words import WordPair, load_iwslt14, load_word_pairs, words_of
from lexergy.errors import LexergyError


def test_words():
    assert words_of("Tom's T-Shirt kostet 5,50 €!") == ("tom's", "t-shirt", "kostet", "5", ",", "50", "€", "!")
    assert words_of("„Grüß Gott“ -- ja?") == ("„", "grüß", "gott", "“", "-", "-", "ja", "?")


def numbered_pairs(path, count):
    path.write_text("".join(f"one {n}\tein Satz {n} .\n" for n in range(count)) + "too many words here\tzu viele\n")
    return path


def test_training_pairs_are_taken_from_everywhere(tmp_path):
    path = numbered_pairs(tmp_path / "pairs.tsv", 40)
    everything, _ = load_word_pairs(path, validation=0.2, test=0.2)
    few, _ = load_word_pairs(path, max_pairs=2, validation=0.2, test=0.2)
    assert few == (everything.train[:: len(everything.train) // 2][:2], everything.validation, everything.test)
    assert load_word_pairs(path, max_pairs=1000, validation=0.2, test=0.2).splits == everything


def test_long_sentences_are_left_out_after_the_split(tmp_path):
    path = numbered_pairs(tmp_path / "pairs.tsv", 40)
    everything, _ = load_word_pairs(path, validation=0.2, test=0.2)
    assert sum(map(len, everything)) == 41
    short, _ = load_word_pairs(path, max_words=4, validation=0.2, test=0.2, source_column=1, target_column=0)
    assert sum(map(len, short)) == 41
    assert all(pair.source[0] in ("ein", "zu") for part in short for pair in part)
    shorter, _ = load_word_pairs(path, max_words=3, validation=0.2, test=0.2, source_column=0, target_column=0)
    left_out = WordPair(("too", "many", "words", "here"), ("too", "many", "words", "here"))
    assert sum(map(len, shorter)) == 40
    assert not any(left_out in part for part in shorter)
    with pytest.raises(LexergyError, match="`max_words` is 1 and leaves no pairs"):
        load_word_pairs(path, max_words=1)


def test_a_ragged_line_is_told_and_the_rest_is_there(tmp_path):
    path = numbered_pairs(tmp_path / "pairs.tsv", 40)
    path.write_text(path.read_text() + "no translation\n")
    splits, (message,) = load_word_pairs(path, validation=0.2, test=0.2)
    assert sum(map(len, splits)) == 41
    assert "1 of 42 pairs left out" in message
    assert "pairs.tsv:42" in message


def test_tatoeba_by_name_is_german_to_english(tmp_path, monkeypatch):
    (tmp_path / "tatoeba_de_en").mkdir()
    numbered_pairs(tmp_path / "tatoeba_de_en" / "deu.txt", 40)
    monkeypatch.setenv("LEXERGY_DATA", str(tmp_path))
    assert load_word_pairs("tatoeba-de-en", max_words=4).splits.train[0].source[0] == "ein"


def test_iwslt_prepared(tmp_path):
    for part in ("train", "valid", "test"):
        (tmp_path / f"{part}.de").write_text(f"{part} satz &apos;s\n\n")
        (tmp_path / f"{part}.en").write_text(f"{part} sentence\nnothing\n")
    splits = load_iwslt14(tmp_path)
    assert splits.validation == [
        WordPair(("valid", "satz", "&apos;s"), ("valid", "sentence")),
        WordPair((), ("nothing",)),
    ]
    assert [len(part) for part in load_word_pairs(tmp_path).splits] == [1, 1, 1]
    (tmp_path / "test.en").write_text("only one\n")
    with pytest.raises(LexergyError, match="2 sources and 1 targets"):
        load_iwslt14(tmp_path)
    (tmp_path / "test.en").unlink()
    with pytest.raises(LexergyError, match=r"test\.en does not exist"):
        load_iwslt14(tmp_path)


def test_iwslt_as_published(tmp_path):
    header = "<url>http://ted</url>\n<title>A talk</title>\n"
    for side, word in (("de", "Satz"), ("en", "Sentence")):
        lines = "".join(f" {word} {number}.\n" for number in range(46))
        (tmp_path / f"train.tags.de-en.{side}").write_text(header + lines)
        for part in ("TED.dev2010", "TEDX.dev2012"):
            segments = "".join(f'<seg id="{number}"> {word} &amp; {part} </seg>\n' for number in (1, 2))
            (tmp_path / f"IWSLT14.{part}.de-en.{side}.xml").write_text(f"<doc>\n{segments}</doc>\n")
    splits = load_iwslt14(tmp_path)
    assert [len(part) for part in splits] == [44, 2, 4]
    assert splits.train[0] == WordPair(("satz", "0", "."), ("sentence", "0", "."))
    assert [pair.source[1] for pair in splits.validation] == ["22", "45"]
    assert splits.test[0] == WordPair(("satz", "&", "ted", ".", "dev2010"), ("sentence", "&", "ted", ".", "dev2010"))


def test_a_folder_with_nothing_of_the_kind(tmp_path):
    with pytest.raises(LexergyError, match="holds no pairs of sentences"):
        load_iwslt14(tmp_path)
