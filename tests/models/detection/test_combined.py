"""Readers of different tokens as one."""

import numpy as np
import pytest
import torch

from lexergy.errors import LexergyError
from lexergy.models.detection.combined import Placed, SumReader, carried
from lexergy.models.detection.readers import TokenisedText
from toys.texts import MACHINE, PEOPLE, written


def energies_of(reader, block):
    return next(reader.token_energies([block]))


def test_energies_go_to_the_tokens_at_the_same_place_and_keep_their_mean():
    """a | bcd for the one reader, ab | cd for the other: 1 | (1 + 3 + 3) / 3, then shifted by a third."""
    read = TokenisedText("abcd", [5, 6], [(0, 2), (2, 4)])
    found = carried(torch.tensor([1.0, 3.0]), read, Placed("abcd", np.array([1, 4])))
    assert found.tolist() == pytest.approx([4 / 3, 8 / 3])


def test_of_a_text_that_was_cut_the_last_energy_holds_to_its_end():
    read = TokenisedText("abcd", [5, 6], [(0, 1), (1, 2)])
    found = carried(torch.tensor([1.0, 3.0]), read, Placed("abcd", np.array([1, 1, 4])))  # one token of no characters
    assert found.tolist() == pytest.approx([1 - 1 / 3, 3 - 1 / 3, 3 - 1 / 3])


def test_a_block_has_the_weighted_sum_of_the_energies_of_its_text(combined_detector, states_detector, encoder_detector):
    reader = combined_detector.reader
    text = combined_detector.read(written(MACHINE, 3))
    blocks = [text.piece(block) for block in combined_detector.blocks_of(text)]
    for block, found in zip(blocks, reader.token_energies(blocks), strict=True):
        words = states_detector.reader.lm.tokenizer.decode(block)
        lm = float(energies_of(states_detector.reader, block).mean())
        read = torch.tensor(encoder_detector.reader.tokenise(words).ids)
        encoder = float(energies_of(encoder_detector.reader, read).mean())
        assert len(found) == len(block)
        assert float(found.mean()) == pytest.approx(0.5 * lm + 2 * encoder, abs=1e-4)


def test_a_reader_with_fewer_than_two_tokens_says_nothing(combined_detector, states_detector, monkeypatch):
    second = combined_detector.reader.members[1]
    monkeypatch.setattr(second, "tokenise", lambda text: TokenisedText(text, [7], [(0, len(text))]))
    block = torch.tensor(combined_detector.read(written(PEOPLE, 1)).ids[:20])
    torch.testing.assert_close(
        energies_of(combined_detector.reader, block), 0.5 * energies_of(states_detector.reader, block).double()
    )


def test_what_is_no_combination(states_detector, encoder_detector):
    for members in ([states_detector.reader], [encoder_detector.reader, states_detector.reader]):
        with pytest.raises(LexergyError, match="expected two or more, an LM first"):
            SumReader(members)
