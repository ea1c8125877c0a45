import torch

from lexergy.core.search_aware.sequence_costs import hamming_costs, sequence_cost
from lexergy.core.search_aware.step_decoder import PADDING
from toys.decoders import toy_decoder


def test_wrong_symbols_are_counted_up_to_the_length():
    decoder = toy_decoder((4, 2))
    costs = hamming_costs(decoder, torch.tensor([[0, 1, 2, 0], [1, 1, PADDING, PADDING]]))
    written = torch.tensor([[0, 2, 2, 1], [0, 1, 2, 2]])
    assert sequence_cost(decoder, written, costs).tolist() == [2, 1]


def test_a_wrong_o_counts_doubly_and_a_missed_one_does_not():
    decoder = toy_decoder((3, 3))
    costs = hamming_costs(decoder, torch.tensor([[0, 1, 2], [0, 0, 0]]), torch.tensor([2.0, 1.0, 1.0]))
    assert sequence_cost(decoder, torch.tensor([[0, 0, 1], [0, 1, 2]]), costs).tolist() == [3, 2]


def test_who_ends_early_or_late_pays_for_each_step():
    """Gold is a b end; rows longer than gold's tensor count too."""
    end = 2
    decoder = toy_decoder((5, 5, 5, 5), end=end)
    costs = hamming_costs(decoder, torch.tensor([[0, 1, end]] * 4))
    written = torch.tensor(
        [[0, 1, end, 0, 0], [end, PADDING, PADDING, PADDING, PADDING], [0, 1, 1, 0, 1], [0, 0, 0, end, 0]]
    )
    assert sequence_cost(decoder, written, costs).tolist() == [0, 2, 3, 2]


def test_what_has_no_gold_costs_nothing():
    decoder = toy_decoder((3,))
    costs = hamming_costs(decoder, torch.tensor([[0, PADDING, 2]]))
    assert sequence_cost(decoder, torch.tensor([[1, 1, 1]]), costs).tolist() == [2]


def test_any_cost_is_counted_up_to_the_length():
    decoder = toy_decoder((4, 2))
    written = torch.tensor([[0, 2, 2, 1], [0, 1, 2, 2]])
    total = sequence_cost(decoder, written, lambda position, symbols: 10.0**position * (symbols + 1))
    assert total.tolist() == [2331, 21]
