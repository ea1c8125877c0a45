"""An energy trained on texts that end and texts that go on knows both."""

import pytest
import torch
from torch import Tensor

from lexergy.models.causal.lm import CausalLM
from lexergy.models.energies import LinearEnergy, LinearEnergyConfig, TransformerEnergy
from lexergy.models.joint.model import ResidualEBM
from lexergy.testing import EnumerableLM
from lexergy.training.objectives.contrastive import ContrastiveData, NoiseContrastive
from toys.energies import wake

END, SIGNAL, LENGTH = 0, 5, 6


def people(lm: CausalLM, count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Prefixes (N, 2), and texts (N, C) that end after the first token 5, and nowhere else."""
    prefixes = torch.tensor([[1, 2]]).expand(count, -1)
    drawn = lm.endless().sample(prefixes, num_samples=1, max_new_tokens=LENGTH, seed=seed).tokens[:, 0]
    signals = drawn.eq(SIGNAL).int()
    return prefixes, drawn.masked_fill(signals.cumsum(1) > signals, END)


@pytest.fixture(scope="module")
def lm() -> CausalLM:
    return EnumerableLM(sharpness=1.5, seed=2).ending(END)  # ends anywhere


def pairs(lm: CausalLM, count: int, seed: int) -> ContrastiveData:
    prefixes, texts = people(lm, count, seed)
    negatives = lm.sample(prefixes, num_samples=1, max_new_tokens=LENGTH, seed=seed + 1).tokens
    return ContrastiveData(prefixes, texts, negatives, end_token=END)


@pytest.fixture(scope="module")
def energy(lm) -> TransformerEnergy:
    objective = NoiseContrastive(pairs(lm, 1000, seed=1), pairs(lm, 200, seed=3))
    energy = TransformerEnergy.from_causal_lm(lm, seed=0)
    optimiser = torch.optim.Adam(energy.parameters(), lr=0.01)
    generator = torch.Generator().manual_seed(0)
    for _ in range(200):
        loss, _ = objective.loss(energy, torch.randint(1000, (64,), generator=generator), generator)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    assert objective.evaluate(energy)["accuracy"] > 0.8
    return energy.eval()


def test_texts_that_end_where_peoples_do_are_preferred(lm, energy):
    joint = ResidualEBM(lm, energy)
    drawn = lm.sample(torch.tensor([[1, 2]]), num_samples=600, max_new_tokens=LENGTH, seed=7)
    energies = joint.score(torch.tensor([[1, 2]]), drawn.tokens, lengths=drawn.lengths)[0]
    has_ended = drawn.lengths[0] < LENGTH
    last = drawn.tokens[0].gather(1, (drawn.lengths[0] - 2).clamp_min(0)[:, None]).squeeze(1)  # before the end
    right, wrong = has_ended & (last == SIGNAL), has_ended & (last != SIGNAL)
    went_past = ~has_ended & (drawn.tokens[0, :, :-2] == SIGNAL).any(1)
    goes_on = ~has_ended & (drawn.tokens[0] != SIGNAL).all(1) & (drawn.tokens[0, :, -1] != END)
    assert min(int(group.sum()) for group in (right, wrong, went_past, goes_on)) >= 10
    assert energies[right].mean() + 1 < energies[wrong].mean()
    assert energies[goes_on].mean() + 1 < energies[went_past].mean()


def test_the_joint_model_fits_texts_that_end_better_than_the_lm(lm, energy):
    prefixes, texts = people(lm, 100, seed=11)
    measured = ResidualEBM(lm, energy).perplexity(
        torch.cat([prefixes, texts], 1), prefix_length=2, num_samples=100, rows_per_batch=10**4
    )
    lengths = lm.lengths(texts)
    assert lengths.min() < LENGTH
    assert measured.continuation_length == pytest.approx(float(lengths.double().mean()))
    log_prob = lm.log_prob(torch.cat([prefixes, texts], 1), prefix_length=2)
    assert measured.base == pytest.approx(float((-log_prob.sum() / lengths.sum()).exp()))
    assert measured.upper < 0.9 * measured.base


def test_padding_takes_no_part_in_training(lm):
    """A number per token is trained as if each text stood alone: padding would count the end token over and over."""
    energy = wake(LinearEnergy(LinearEnergyConfig(vocab_size=7)))
    data = pairs(lm, 30, seed=1)
    NoiseContrastive(data, data, "all").loss(energy, torch.arange(30), torch.Generator())[0].backward()
    padded = energy.weights.weight.grad.clone()
    energy.zero_grad()
    losses = []
    for row in range(30):
        texts = [text[: int(lm.lengths(text))] for text in (data.continuations[row], data.negatives[row, 0])]
        alone = [energy.score(data.prefixes[row : row + 1], text[None, None]).squeeze() for text in texts]
        losses.append(torch.nn.functional.softplus(alone[0]) + torch.nn.functional.softplus(-alone[1]))
    torch.stack(losses).mean().backward()
    torch.testing.assert_close(energy.weights.weight.grad, padded)
