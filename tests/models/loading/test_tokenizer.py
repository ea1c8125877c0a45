import pytest
from transformers import AutoTokenizer

from lexergy.errors import LexergyError
from lexergy.models.loading.tokenizer import train_tokenizer

TEXTS = ["the state of the union is strong and the people are free\n" * 5, "Congress shall make no distribution. " * 5]
ANY_TEXT = [
    "",
    " leading and trailing ",
    "a  b\n\n\tc\r\n",
    "naïve — 東京 🗽",
    "don't , do . it !",
    "\x00\x7f",
    "'s  'S",
]


def test_any_text_survives_the_round_trip_also_after_loading(tmp_path):
    trained = train_tokenizer(TEXTS, 300, tmp_path / "tokenizer")
    loaded = AutoTokenizer.from_pretrained(tmp_path / "tokenizer")
    for text in [*TEXTS, *ANY_TEXT]:
        ids = trained.encode(text)
        assert trained.decode(ids) == text
        assert loaded.encode(text) == ids
        assert loaded.decode(ids) == text
        assert not set(ids) & set(trained.all_special_ids)


def test_size_special_tokens_and_merges(tmp_path):
    tokenizer = train_tokenizer(TEXTS, 280, tmp_path)
    assert len(tokenizer) == tokenizer.vocab_size == 280
    assert tokenizer.convert_tokens_to_ids(["<|endoftext|>", "<mask>", "<pad>"]) == [0, 1, 2]
    assert (tokenizer.eos_token_id, tokenizer.mask_token_id, tokenizer.pad_token_id) == (0, 1, 2)
    assert len(tokenizer.encode(TEXTS[0])) < len(TEXTS[0])
    assert len(train_tokenizer(["ab"], 5000, tmp_path)) == 260  # one merge is all there is


def test_training_is_deterministic(tmp_path):
    for name in ("first", "second"):
        train_tokenizer(iter(TEXTS), 320, tmp_path / name)
    first, second = (tmp_path / name / "tokenizer.json" for name in ("first", "second"))
    assert first.read_bytes() == second.read_bytes()


def test_a_vocabulary_without_room_for_the_bytes_is_refused(tmp_path):
    with pytest.raises(LexergyError, match="`vocab_size` is 258; expected at least 259"):
        train_tokenizer(TEXTS, 258, tmp_path / "tokenizer")
    assert not (tmp_path / "tokenizer").exists()
