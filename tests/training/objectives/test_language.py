from types import SimpleNamespace

import pytest
import torch
from torch import nn

from lexergy.errors import LexergyError
from lexergy.training.objectives.language import LanguageModelling, MaskedLanguageModelling
from lexergy.training.randomness import step_generator

VOCAB, MASK = 10, 9


class BigramTable(nn.Module):
    """Logits of a position from the token at that position."""

    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.randn(VOCAB, VOCAB, generator=torch.Generator().manual_seed(0)))

    def forward(self, input_ids):
        return SimpleNamespace(logits=self.table[input_ids])


def random_tokens(count, seed=0):
    return torch.randint(MASK, (count,), generator=torch.Generator().manual_seed(seed))


def test_every_token_but_the_first_is_predicted_once():
    stream = random_tokens(13)
    model = BigramTable()
    exact = -model.table.log_softmax(-1)[stream[:-1], stream[1:]].mean()
    objective = LanguageModelling(stream, stream, block_length=4)
    assert objective.num_examples == 3
    loss, _ = objective.loss(model, torch.arange(3), step_generator(0, 0))
    metrics = objective.evaluate(model)
    assert loss.item() == pytest.approx(exact.item())
    assert metrics["loss"] == pytest.approx(exact.item())
    assert metrics["perplexity"] == pytest.approx(exact.exp().item())


def test_evaluate_weighs_blocks_equally_whatever_the_batches(monkeypatch):
    stream = random_tokens(4 * 11 + 1)
    objective = LanguageModelling(stream, stream, block_length=4)
    whole = objective.evaluate(BigramTable())
    monkeypatch.setattr("lexergy.training.objectives.language.EVALUATION_ROWS", 3)
    assert objective.evaluate(BigramTable()) == pytest.approx(whole)


def masked(block_length, stream, **settings):
    return MaskedLanguageModelling(stream, stream, block_length, mask_token=MASK, vocab_size=VOCAB, **settings)


def test_fifteen_percent_are_chosen_and_treated_80_10_10():
    """Binomial shares, five standard deviations wide: fails for one seed in 50,000 if they are right."""
    rows, length = 400, 40
    objective = masked(length, random_tokens(rows * length))
    blocks = objective.train
    inputs, labels = objective.mask(blocks, torch.arange(rows), step_generator(0, 0))
    chosen = labels != -100
    assert (chosen.sum(dim=1) == 6).all()
    assert torch.equal(labels[chosen], blocks[chosen])
    assert torch.equal(inputs[~chosen], blocks[~chosen])
    masks = (inputs[chosen] == MASK).double().mean()
    kept = (inputs[chosen] == blocks[chosen]).double().mean()
    count = int(chosen.sum())
    for share, expected in ((masks, 0.8 + 0.1 / VOCAB), (kept, 0.1 + 0.1 / VOCAB)):
        assert abs(share - expected) < 5 * (expected * (1 - expected) / count) ** 0.5
    per_position = chosen.double().mean(dim=0)
    assert (per_position - 0.15).abs().max() < 5 * (0.15 * 0.85 / rows) ** 0.5


def test_masks_change_in_training_and_are_fixed_in_validation():
    stream = random_tokens(200)
    first, second = masked(20, stream), masked(20, stream)
    assert torch.equal(first.validation, second.validation)
    indices = torch.arange(10)
    at_step = [first.mask(first.train, indices, step_generator(0, step))[1] for step in (0, 0, 1)]
    assert torch.equal(at_step[0], at_step[1])
    assert not torch.equal(at_step[0], at_step[2])


def test_masked_loss_reads_chosen_positions_only():
    objective = masked(20, random_tokens(200))
    model = BigramTable()
    indices = torch.arange(10)
    inputs, labels = objective.mask(objective.train, indices, step_generator(0, 0))
    chosen = labels != -100
    exact = -model.table.log_softmax(-1)[inputs[chosen], objective.train[chosen]].mean()
    loss, _ = objective.loss(model, indices, step_generator(0, 0))
    assert loss.item() == pytest.approx(exact.item())


def test_a_stream_shorter_than_a_block_is_refused():
    with pytest.raises(LexergyError, match=r"validation_tokens.*at least 5"):
        LanguageModelling(random_tokens(20), random_tokens(4), block_length=4)
