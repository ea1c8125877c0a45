import pytest

from lexergy.data.masked.phonemes import PAD, load_phonemes, split_entries, split_sequences
from lexergy.errors import LexergyError

DICTIONARY = """;;; a comment
A  AH0
A(1)  EY1
EIGHT  EY1 T
ATE  EY1 T
TEA  T IY1
LONGER  T T T T T T T
"""


@pytest.fixture
def dictionary(tmp_path):
    path = tmp_path / "cmudict"
    path.write_text(DICTIONARY)
    return path


def test_entries_lose_their_stress_and_keep_their_alternates(dictionary):
    phonemes = load_phonemes(dictionary, max_length=2)
    assert phonemes.symbols == ("AH", "EY", "IY", "T")
    assert phonemes.tokens.tolist() == [[0, PAD], [1, PAD], [1, 3], [1, 3], [3, 2]]


def test_a_split_by_sequence_shares_none(dictionary):
    tokens = load_phonemes(dictionary, max_length=2).tokens
    shared = 0
    for seed in range(8):
        for split, disjoint in ((split_sequences, True), (split_entries, False)):
            train, test = split(tokens, 0.5, seed)
            assert len(train) + len(test) == len(tokens)
            common = {tuple(row) for row in train.tolist()} & {tuple(row) for row in test.tolist()}
            assert not (disjoint and common)
            shared += len(common)
    assert shared > 0  # by entry, homophones part


def test_what_is_no_dictionary(tmp_path):
    with pytest.raises(LexergyError, match="cannot be read"):
        load_phonemes(tmp_path / "nowhere")
    (tmp_path / "empty").write_text(";;; nothing\n")
    with pytest.raises(LexergyError, match="no entry of 1 to 6"):
        load_phonemes(tmp_path / "empty")
