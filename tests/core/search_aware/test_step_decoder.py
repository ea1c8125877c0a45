import pytest
import torch

from lexergy.core.search_aware.step_decoder import PADDING, score_sequences
from toys.decoders import ToyDecoder, toy_decoder


def by_hand(decoder, sentence: int, symbols: list[int]) -> float:
    """The scores of one sequence, symbol by symbol."""
    states, inputs = decoder.of(sentence).start()
    total = 0.0
    for position, symbol in enumerate(symbols):
        scores, states = decoder.of(sentence).step(position, states, inputs)
        total += float(scores[0, 0, symbol])
        inputs = decoder.embeddings[None, None, symbol]
    return total


@pytest.mark.parametrize("normalised", [True, False])
def test_a_sequence_scores_the_sum_over_its_own_symbols(normalised):
    decoder = toy_decoder((4, 2, 3), normalised=normalised)
    sequences = [[0, 2, 1, 1], [2, 0], [1, 1, 0]]
    scores = score_sequences(decoder, torch.tensor([[0, 2, 1, 1], [2, 0, 1, 2], [1, 1, 0, PADDING]]))
    expected = [by_hand(decoder, sentence, symbols) for sentence, symbols in enumerate(sequences)]
    assert torch.allclose(scores, torch.tensor(expected).double())


def test_a_sequence_is_over_after_its_first_end():
    decoder = toy_decoder((4, 4, 4), end=2)
    sequences = [[0, 2], [2], [1, 1, 0, 0]]
    scores = score_sequences(decoder, torch.tensor([[0, 2, 1, 2], [2, PADDING, PADDING, PADDING], [1, 1, 0, 0]]))
    expected = [by_hand(decoder, sentence, symbols) for sentence, symbols in enumerate(sequences)]
    assert torch.allclose(scores, torch.tensor(expected).double())


def test_a_decoder_s_own_pass_is_taken_where_it_has_one():
    class Quick(ToyDecoder):
        def teacher_forced(self, gold: torch.Tensor) -> torch.Tensor:
            return torch.tensor([1.0, 10.0, 100.0]).expand(*gold.shape, -1)

    decoder = toy_decoder((4, 2, 3))
    quick = Quick(**vars(decoder))
    symbols = torch.tensor([[0, 2, 1, 1], [2, 0, 1, 2], [1, 1, 0, PADDING]])
    assert score_sequences(quick, symbols).tolist() == [121, 101, 21]
