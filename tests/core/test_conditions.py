"""When the use of an energy is unlike its training, and what is said of it."""

import pytest

from lexergy.core.conditions import Conditions, describe, is_unlike
from lexergy.core.decoding import Decoding

TRAINED = Conditions(prefix=64, continuation=32)


def test_like_is_within_a_factor_of_two():
    assert [length for length in (31, 32, 64, 128, 129) if is_unlike(length, 64)] == [31, 129]


@pytest.mark.parametrize(("prefix", "continuation"), [(64, 32), (60, 40), (32, 64), (128, 16)])
def test_nothing_is_said_of_lengths_near_those_of_training(prefix, continuation):
    assert TRAINED.differences(prefix, continuation, Decoding()) == []


def test_differences_are_told_in_numbers():
    lengths, decoding = TRAINED.differences(5, 40, Decoding(top_k=10))
    assert "prefixes of 64 tokens and continuations of 32; here the prompt has 5 and 40 are written" in lengths
    assert "against untruncated samples of the LM; candidates here are top-k 10" in decoding
    assert len(TRAINED.differences(64, 65, Decoding())) == 1
    assert Conditions(64, 32, Decoding(top_k=10)).differences(64, 32, Decoding(top_k=10)) == []


def test_a_decoding_in_a_few_words():
    assert describe(Decoding()) == describe(Decoding(top_p=1.0)) == "untruncated"
    assert describe(Decoding(0.7, 10, 0.95)) == "top-k 10, top-p 0.95, temperature 0.7"
