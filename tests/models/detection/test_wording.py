"""A block of tokens as words, phrases and habits, each phrase at the token in which it ends."""

import torch

from lexergy.data.detection.habits import habits_of
from lexergy.data.detection.phrases import phrases_of
from lexergy.models.detection.wording import wording_of

COMMON = {"our", "union", "is", "strong"}


def test_phrases_end_in_their_tokens(word_lm, byte_lm):
    text = "our union is strong. our union is strong."
    for lm in (word_lm, byte_lm):
        ids = torch.tensor(lm.tokenizer(text, add_special_tokens=False)["input_ids"])
        read = lm.tokenizer.decode(ids)
        found = wording_of(lm.tokenizer, ids, COMMON)
        assert found.phrases == tuple(phrase.name for phrase in phrases_of(read, COMMON))
        assert found.habits == tuple(habits_of(read, len(ids)))
        assert len(found.phrases) == len(found.places)
        for phrase, place in zip(phrases_of(read, COMMON), found.places, strict=True):
            assert 0 <= place <= len(ids) - 2
            if place > 0:  # the first token's are the second's
                before, after = (lm.tokenizer.decode(ids[: place + 1 + own]) for own in (0, 1))
                assert len(before) < phrase.end <= len(after)


def test_of_two_tokens_all_is_at_the_one_that_is_predicted(word_lm):
    ids = torch.tensor(word_lm.tokenizer("our union", add_special_tokens=False)["input_ids"])[:2]
    assert set(wording_of(word_lm.tokenizer, ids, COMMON).places) <= {0}
