import pytest
import torch

from lexergy.training.objectives import translation as translation_objective
from lexergy.training.objectives.translation import ConditionalMasking, TokenPairs
from toys.translators import EnumerableTranslator

MASK, PAD = 4, 0
PAIRS = TokenPairs(
    torch.tensor([[5, 6, 7], [8, 0, 0], [5, 5, 0]]),
    torch.tensor([[8, 5, 0, 0], [6, 6, 7, 5], [7, 0, 0, 0]]),
)


@pytest.fixture(scope="module")
def model():
    return EnumerableTranslator().model


def objective(pairs=PAIRS):
    return ConditionalMasking(pairs, pairs, mask_token=MASK, pad_token=PAD)


def generator():
    return torch.Generator().manual_seed(1)


@torch.no_grad()
def loss_by_hand(model, pairs, chosen):
    """One pair after the other, unpadded."""
    masked_loss = length_loss = 0.0
    for source, target, marks in zip(*pairs, chosen, strict=True):
        source, marks, target = source[source != PAD], marks[target != PAD], target[target != PAD]
        encoded = model.encode(source[None])
        logits = model.logits(model.decode(target.masked_fill(marks, MASK)[None], encoded))[0]
        masked_loss -= float(logits.log_softmax(-1)[marks].gather(1, target[marks][:, None]).sum())
        length_loss -= float(encoded.length_logits[0].log_softmax(-1)[len(target) - 1])
    return masked_loss, length_loss


def test_the_loss_by_hand(model, monkeypatch):
    indices = torch.tensor([2, 0, 1])
    chosen = objective().chosen(PAIRS.targets[indices], indices, generator())
    expected = sum(loss_by_hand(model, PAIRS.select(indices), chosen)) / 3
    loss, _ = objective().loss(model, indices, generator())
    assert loss.item() == pytest.approx(expected, rel=1e-5)
    monkeypatch.setattr(translation_objective, "ROWS_TOGETHER", 1)
    assert objective().loss(model, indices, generator())[0].item() == pytest.approx(expected, rel=1e-5)


def test_validation_by_hand(model):
    seeded = torch.Generator().manual_seed(translation_objective.VALIDATION_SEED)
    chosen = objective().chosen(PAIRS.targets, torch.arange(3), seeded)
    masked, length = loss_by_hand(model, PAIRS, chosen)
    found = objective().evaluate(model)
    assert found["loss"] == pytest.approx((masked + length) / 3, rel=1e-5)
    assert found["masked_token_loss"] == pytest.approx(masked / int(chosen.sum()), rel=1e-5)
    assert found["length_loss"] == pytest.approx(length / 3, rel=1e-5)


def test_the_number_of_masks_is_uniform():
    count = 3000
    targets = torch.tensor([[6, 6, 7, 5, 0]]).expand(count, -1)
    chosen = objective().chosen(targets, torch.arange(count), generator())
    assert not chosen[:, 4].any()
    frequencies = chosen.sum(dim=1).bincount(minlength=5) / count
    assert frequencies.tolist() == pytest.approx([0, 0.25, 0.25, 0.25, 0.25], abs=0.04)  # five standard errors
    assert chosen.float().mean(dim=0)[:4].tolist() == pytest.approx([0.625] * 4, abs=0.045)


def test_masks_do_not_depend_on_the_rest_of_the_batch():
    indices = torch.tensor([0, 1, 2])
    together = objective().chosen(PAIRS.targets, indices, generator())
    alone = objective().chosen(PAIRS.targets[1:2], indices[1:2], generator())
    assert torch.equal(together[1:2], alone)
