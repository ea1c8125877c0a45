import pytest
import torch

from lexergy.core.enumeration import all_sequences, exact_conditionals
from lexergy.errors import LexergyError
from lexergy.models.architectures.masked_lstm import PAD, MaskedLSTM, by_length
from lexergy.models.architectures.masked_lstm_partition import log_partition


def lstm(vocab_size=4, hidden_size=6, seed=0):
    model = MaskedLSTM(vocab_size, hidden_size, seed=seed).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3)  # a distribution far from uniform, in which an error shows
    return model


@pytest.mark.parametrize("length", [1, 2, 3, 4])
def test_the_table_is_the_energy_of_each_sequence(length):
    model = lstm()
    torch.testing.assert_close(model.energy_table(length), model.energy(all_sequences(4, length)))


def test_logits_do_not_see_the_token_that_they_score():
    model, tokens = lstm(), torch.tensor([[0, 3, 1, 2]])
    for position in range(4):
        other = tokens.clone()
        other[0, position] = 0 if tokens[0, position] else 1
        before, after = model.masked_logits(tokens), model.masked_logits(other)
        torch.testing.assert_close(before[0, position], after[0, position])
        elsewhere = [place for place in range(4) if place != position]
        assert (before[0, elsewhere] - after[0, elsewhere]).abs().amax(-1).min() > 1e-4


def test_the_energy_is_minus_the_sum_of_masked_logits():
    model, tokens = lstm(), torch.tensor([[2, 0, 3]])
    logits = model.masked_logits(tokens)
    by_hand = -(logits[0, 0, 2] + logits[0, 1, 0] + logits[0, 2, 3])
    torch.testing.assert_close(model.energy(tokens)[0], by_hand)


@pytest.mark.parametrize("largest", [0, 2**14], ids=["by batch", "by table"])
def test_replacements_give_the_true_conditionals(largest, monkeypatch):
    monkeypatch.setattr("lexergy.models.architectures.masked_lstm.LARGEST_TABLE", largest)
    model, tokens = lstm(), torch.tensor([[0, 3, 1], [2, 2, 0]])
    found = (-model.replacement_energies(tokens)).log_softmax(-1)  # (2, 3, V)
    for position in range(3):
        exact = exact_conditionals(model.energy, tokens, torch.full((2,), position), 4)
        torch.testing.assert_close(found[:, position], exact)
    masked = model.masked_logits(tokens).log_softmax(-1)
    assert (found - masked).abs().max() > 0.01  # the masked conditionals are others


@pytest.mark.parametrize("length", [1, 2, 3, 4, 5])
def test_the_partition_function_is_that_of_enumeration(length):
    model = lstm(vocab_size=3)
    naive = torch.logsumexp(-model.energy(all_sequences(3, length)), 0).detach()
    assert log_partition(model, length) == pytest.approx(float(naive), abs=1e-10)


@pytest.mark.parametrize("sequences", [1, 9, 27])
def test_the_cut_into_blocks_changes_nothing(sequences, monkeypatch):
    model = lstm(vocab_size=3)
    exact = log_partition(model, 4)
    monkeypatch.setattr("lexergy.models.architectures.masked_lstm_partition.BLOCK_SEQUENCES", sequences)
    assert log_partition(model, 4) == pytest.approx(exact, abs=1e-12)


def test_in_single_precision_it_is_right_to_a_millionth():
    model = lstm(vocab_size=5)
    exact = log_partition(model, 5)
    assert log_partition(model.float(), 5) == pytest.approx(exact, rel=1e-6)


def test_gradients_flow_through_the_table():
    model, tokens = lstm(), all_sequences(4, 3)
    by_table = torch.autograd.grad(model.energy_table(3).logsumexp(0), list(model.parameters()))
    by_batch = torch.autograd.grad(model.energy(tokens).logsumexp(0), list(model.parameters()))
    for one, other in zip(by_table, by_batch, strict=True):
        torch.testing.assert_close(one, other)


def test_padded_sequences_are_read_without_their_padding():
    model = lstm()
    padded = torch.tensor([[1, PAD, PAD], [0, 2, 3], [3, PAD, PAD], [1, 1, PAD]])
    alone = [model.energy(row[row != PAD][None]) for row in padded]
    torch.testing.assert_close(by_length(model.energy, padded), torch.cat(alone))
    with pytest.raises(LexergyError, match="empty sequence"):
        by_length(model.energy, torch.tensor([[PAD, PAD]]))


def test_the_seed_decides_the_weights():
    one, same, other = (MaskedLSTM(4, 6, seed=seed).left.embedding.weight for seed in (1, 1, 2))
    assert torch.equal(one, same)
    assert not torch.equal(one, other)
