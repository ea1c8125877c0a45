from itertools import pairwise

import pytest
import torch

from lexergy.models.detection.blocks import Block, excerpts, intersecting_blocks, mean_by_token
from lexergy.models.detection.readers import TokenisedText


def test_blocks_by_hand():
    assert intersecting_blocks(5, 8) == [Block(0, 5)]
    assert intersecting_blocks(8, 8) == [Block(0, 8)]
    assert intersecting_blocks(12, 8) == [Block(0, 8), Block(4, 12)]
    assert intersecting_blocks(9, 8) == [Block(0, 8), Block(1, 9)]


@pytest.mark.parametrize("length", [17, 18, 31, 100, 257])
def test_blocks_hold_every_token_and_share_half_with_the_next(length):
    blocks = intersecting_blocks(length, 16)
    assert all(block.end - block.start == 16 for block in blocks)
    assert {token for block in blocks for token in range(*block)} == set(range(length))
    assert all(later.start - earlier.start <= 8 for earlier, later in pairwise(blocks))


def test_excerpts_begin_with_words_and_are_spread_evenly():
    text = "word " * 1000
    places = excerpts(text, 5, 100)
    assert places[0][0] == 0
    assert places[-1][1] == len(text)
    assert all(text[start:].startswith("word") for start, _ in places)
    assert {later[0] - earlier[0] for earlier, later in pairwise(places)} <= set(range(1215, 1236))
    assert excerpts("x" * 1000, 2, 100) == [(0, 100), (900, 1000)]


def test_a_token_in_two_blocks_has_the_mean_of_both():
    values = [torch.tensor([1.0, 1.0]), torch.tensor([3.0, 5.0])]
    found = mean_by_token(4, [Block(0, 2), Block(1, 3)], values)
    assert found[:3].tolist() == [1.0, 2.0, 5.0]
    assert found[3].isnan()


def test_the_last_tokens_begin_with_a_word():
    text = TokenisedText("ab cdef gh", list(range(6)), [(0, 2), (2, 4), (4, 5), (5, 7), (7, 8), (8, 10)])
    assert text.last(9) == text
    assert text.last(5) == TokenisedText(" cdef gh", [1, 2, 3, 4, 5], [(0, 2), (2, 3), (3, 5), (5, 6), (6, 8)])
    assert text.last(4).text == " gh"  # not from within `cdef`
    assert text.last(4).ids == [4, 5]


def test_of_excerpts_the_last_whole_ones_are_left():
    characters = [(place, place + 1) for place in range(9)]
    blocks = (Block(0, 3), Block(3, 6), Block(6, 9))
    text = TokenisedText("a b c d e f g", list(range(9)), characters, blocks)
    assert text.last(7).excerpts == (Block(0, 3), Block(3, 6))
    assert text.last(7).ids == [3, 4, 5, 6, 7, 8]
    assert text.last(2).excerpts == ()
