"""Numbers for words, their spelling and their labels."""

import pytest

from lexergy.data.vocabulary import (
    END,
    UNKNOWN,
    SequenceVocabulary,
    build_sequence_vocabulary,
    build_vocabulary,
    shape,
    suffix,
)
from lexergy.errors import LexergyError

WORDS = [["The", "cat", "sat"], ["the", "cat", "ran"], ["a", "cat"]]
LABELS = [["D", "N", "V"], ["D", "N", "V"], ["D", "N"]]


def test_rare_symbols_are_unknown_and_counted_as_such():
    vocabulary = build_vocabulary("cbbaaad", specials=[UNKNOWN], minimum=2)
    assert vocabulary.counts == {UNKNOWN: 2, "a": 3, "b": 2}
    assert vocabulary.encode(["b", "d", "never"]) == [2, 0, 0]
    assert vocabulary.decode([1, 2, -1, -1]) == ["a", "b"]
    assert list(build_vocabulary(["<unk>", "x"], specials=[UNKNOWN]).counts.items()) == [("<unk>", 1), ("x", 1)]


def test_ties_are_in_alphabetical_order():
    assert build_vocabulary("bac") == build_vocabulary("cba")
    assert build_vocabulary("bac").symbols == ("a", "b", "c")


def test_a_label_that_was_never_seen_has_no_number():
    assert build_vocabulary(["N"]).encode(["N", "V"]) == [0, -1]
    with pytest.raises(LexergyError, match="`minimum` is 2"):
        build_vocabulary(["N"], minimum=2)


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("Boeing-747", "Xx-d"),
        ("U.S.", "X.X."),
        ("don't", "x'x"),
        ("1996-08-22", "d-d-d"),
        ("Äöü", "Xx"),
        ("!?!", "!?!"),
    ],
)
def test_shapes(word, expected):
    assert shape(word) == expected


def test_suffixes():
    assert [suffix(word) for word in ("Running", "OF", "a")] == ["ing", "of", "a"]


def test_features_of_words_are_rows():
    vocabulary = build_sequence_vocabulary(WORDS, LABELS, features=["lower", "shape"])
    assert vocabulary.features["lower"].symbols == (UNKNOWN, "cat", "the")
    assert vocabulary.features["shape"].counts == {UNKNOWN: 1, "x": 7}
    assert vocabulary.feature_numbers(["THE", "cat", "sat"]) == [[2, 0], [1, 1], [0, 1]]
    assert vocabulary.outputs.symbols == ("D", "N", "V")
    assert vocabulary.characters is None


def test_text_that_ends_and_is_spelled():
    vocabulary = build_sequence_vocabulary(WORDS, WORDS, spelled=True, ends=True)
    assert vocabulary.outputs.symbols == (UNKNOWN, END, "cat")
    assert vocabulary.outputs.decode([2, 0, 1, 2]) == ["cat", UNKNOWN]
    assert vocabulary.character_numbers(["tax"]) == [[vocabulary.characters.numbers[char] for char in "ta"] + [1]]
    assert 0 not in vocabulary.character_numbers(["cat"])[0]


def test_vocabularies_are_read_as_they_were_written(tmp_path):
    vocabulary = build_sequence_vocabulary(WORDS, LABELS, spelled=True)
    vocabulary.save(tmp_path)
    read = SequenceVocabulary.load(tmp_path)
    assert read == vocabulary
    assert read.features["word"].symbols == vocabulary.features["word"].symbols
    (tmp_path / "vocabulary.json").write_text('{"features": []}')
    with pytest.raises(LexergyError, match="expected the vocabularies"):
        SequenceVocabulary.load(tmp_path)
    with pytest.raises(LexergyError, match="expected the vocabularies"):
        SequenceVocabulary.load(tmp_path / "nowhere")


def test_a_feature_that_does_not_exist():
    with pytest.raises(LexergyError, match="expected some of word, lower, suffix, shape"):
        build_sequence_vocabulary(WORDS, LABELS, features=["word", "prefix"])
