"""The objectives of Electric, ELECTRA and the two-tower model on tiny models and streams."""

import math
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from lexergy.errors import LexergyError
from lexergy.models.cloze import ElectricModel, MaskedGenerator, TwoTowerModel
from lexergy.models.cloze.bodies import BodyShape
from lexergy.models.cloze.pair import NoisePair
from lexergy.recipes.sections.training import TrainingRecipe
from lexergy.training.loop import train
from lexergy.training.objectives.cloze import CLASSIFIER_WEIGHT, NoiseDetection
from lexergy.training.objectives.language import TwoTowerModelling
from lexergy.training.randomness import step_generator

VOCAB, MASK, BLOCK = 11, 10, 8
SHAPE = BodyShape(VOCAB, 32, 2, 4, BLOCK + 2)


def random_tokens(count, seed=0):
    return torch.randint(MASK, (count,), generator=torch.Generator().manual_seed(seed))


class TokenTable(nn.Module):
    """A two-tower stand-in whose logits are the same at each position: a distribution over tokens."""

    def __init__(self, logits):
        super().__init__()
        self.logits = nn.Parameter(logits)
        self.read = None

    def forward(self, input_ids):
        self.read = input_ids
        return SimpleNamespace(logits=self.logits.expand(len(input_ids), input_ids.shape[1] - 2, -1))


class TokenEnergy(nn.Module):
    """An energy for each token, whatever its context."""

    def __init__(self, energies):
        super().__init__()
        self.table = nn.Parameter(energies)

    def forward(self, input_ids):
        return SimpleNamespace(energies=self.table[input_ids])


class TablePair(nn.Module):
    def __init__(self, logits, energies):
        super().__init__()
        self.noise, self.model = TokenTable(logits), TokenEnergy(energies)


def make_pair(noise_kind=TwoTowerModel):
    return NoisePair(
        ElectricModel.from_shape(SHAPE, seed=1),
        noise_kind.from_shape(SHAPE.scaled(1 / 4), seed=2, embedding_size=SHAPE.hidden_size),
    )


def test_each_token_is_predicted_once_given_all_others():
    stream = torch.arange(3 * 4 + 2)
    objective = TwoTowerModelling(stream, stream, block_length=4)
    assert objective.train[:, 1:-1].flatten().tolist() == list(range(1, 13))
    table = TokenTable(torch.randn(20, generator=torch.Generator().manual_seed(0)))
    exact = -table.logits.log_softmax(-1)[1:13].mean().item()
    assert objective.evaluate(table)["loss"] == pytest.approx(exact)


def test_ceil_of_15_percent_different_positions_are_drawn_again_and_ends_stay():
    stream = random_tokens(500)
    objective = NoiseDetection(stream, stream, 20, classifier="electric")
    blocks = objective.train[:10]
    uniforms = torch.rand(10, 23, generator=torch.Generator().manual_seed(1)).double()
    noised = objective.noise(TokenTable(torch.zeros(VOCAB)), blocks, uniforms)
    assert (noised.is_noise.sum(1) == 3).all()
    inside = noised.tokens[:, 1:-1]
    assert torch.equal(inside[~noised.is_noise], blocks[:, 1:-1][~noised.is_noise])
    assert torch.equal(noised.tokens[:, [0, -1]], blocks[:, [0, -1]])
    torch.testing.assert_close(noised.noise_log_prob, torch.full((10, 20), -math.log(VOCAB)))
    assert noised.noise_loss.item() == pytest.approx(math.log(VOCAB))


def test_the_loss_by_hand_where_the_noise_always_draws_the_same_token():
    """q is nearly all on token 4 and the text is nothing but 4: what is drawn again is 4, and is noise all the same."""
    stream = torch.full((60,), 4)
    logits = torch.full((VOCAB,), -40.0)
    logits[4] = 0.0
    pair = TablePair(logits, torch.full((VOCAB,), 0.3))
    electric = NoiseDetection(stream, stream, 20, classifier="electric")
    loss, metrics = electric.loss(pair, torch.arange(2), step_generator(0, 0))
    logit = 0.3 + math.log(3 / 17)
    by_hand = (3 * math.log1p(math.exp(-logit)) + 17 * math.log1p(math.exp(logit))) / 20
    assert metrics["classifier_loss"] == pytest.approx(by_hand, rel=1e-5)
    assert loss.item() == pytest.approx(CLASSIFIER_WEIGHT * by_hand, rel=1e-5)
    assert metrics["log_z"] == pytest.approx(-0.3, abs=1e-5)
    electra = NoiseDetection(stream, stream, 20, classifier="electra")
    _, metrics = electra.loss(pair, torch.arange(2), step_generator(0, 0))
    assert metrics["classifier_loss"] == pytest.approx(math.log1p(math.exp(0.3)), rel=1e-5)  # nothing differs


def test_a_residual_energy_is_that_of_the_law_relative_to_the_noise():
    """q exp(-r) with r = E + log q is exp(-E): same loss, and with r = 0 nothing but the noise's share is known."""
    tokens, logits = random_tokens(40), torch.randn(VOCAB, generator=torch.Generator().manual_seed(1))
    energies = torch.randn(VOCAB, generator=torch.Generator().manual_seed(2))
    indices = torch.arange(3)

    def losses(table, residual):
        objective = NoiseDetection(tokens, tokens, BLOCK, classifier="electric", residual=residual)
        _, metrics = objective.loss(TablePair(logits, table), indices, step_generator(0, 0))
        return metrics

    own, relative = losses(energies, False), losses(energies + logits.log_softmax(0), True)
    assert relative == pytest.approx(own, abs=1e-5)
    share = 2 / 8
    prior = -share * math.log(share) - (1 - share) * math.log(1 - share)
    assert losses(torch.zeros(VOCAB), True)["classifier_loss"] == pytest.approx(prior, abs=1e-5)
    assert losses(torch.zeros(VOCAB), True)["log_z"] == pytest.approx(0, abs=1e-6)


def test_a_masked_generator_reads_masks_where_tokens_are_drawn_again():
    stream = random_tokens(100)
    objective = NoiseDetection(stream, stream, 20, classifier="electra", mask_token=MASK)
    table = TokenTable(torch.zeros(VOCAB))
    uniforms = torch.rand(2, 23, generator=torch.Generator().manual_seed(1)).double()
    noised = objective.noise(table, objective.train[:2], uniforms)
    assert torch.equal(table.read[:, 1:-1] == MASK, noised.is_noise)


def test_the_classifier_s_loss_does_not_train_the_noise():
    """log q enters Electric's classifier as a number: only the noise's own cross-entropy moves its towers."""
    pair = make_pair()
    stream = random_tokens(200)
    objective = NoiseDetection(stream, stream, BLOCK, classifier="electric")
    loss, _ = objective.loss(pair, torch.arange(4), step_generator(0, 0))
    loss.backward()
    trained = {name: value.grad.clone() for name, value in pair.noise.bodies.named_parameters()}
    pair.zero_grad()
    noise_only = TwoTowerModelling(stream, stream, BLOCK).loss(pair.noise, torch.arange(4), step_generator(0, 0))[0]
    noise_only.backward()
    for name, value in pair.noise.bodies.named_parameters():
        torch.testing.assert_close(trained[name], value.grad, atol=1e-6, rtol=1e-4)


@pytest.mark.parametrize(
    ("classifier", "noise_kind", "mask_token"),
    [("electric", TwoTowerModel, None), ("electra", TwoTowerModel, None), ("electra", MaskedGenerator, MASK)],
    ids=["electric", "electra-tt", "electra"],
)
def test_random_choices_do_not_depend_on_the_batch(classifier, noise_kind, mask_token):
    pair = make_pair(noise_kind).eval()
    stream = random_tokens(200)
    objective = NoiseDetection(stream, stream, BLOCK, classifier=classifier, mask_token=mask_token)
    together = objective.loss(pair, torch.tensor([3, 5]), step_generator(0, 7))[0]
    apart = [objective.loss(pair, torch.tensor([index]), step_generator(0, 7))[0] for index in (3, 5)]
    assert together.item() == pytest.approx(sum(part.item() for part in apart) / 2, rel=1e-5)
    assert objective.evaluate(pair) == objective.evaluate(pair)


def test_a_pair_is_trained_and_keeps_its_last_weights(tmp_path):
    """Text of independent tokens: the noise and exp(-E) both come to be their distribution, so that Z is 1."""
    distribution = torch.tensor([0.4, 0.3, 0.2, 0.1])
    stream = torch.multinomial(distribution, 4000, replacement=True, generator=torch.Generator().manual_seed(0))
    objective = NoiseDetection(stream, stream[:200], BLOCK, classifier="electric", validation_blocks=16)
    config = TrainingRecipe(
        learning_rate=3e-3, max_steps=60, batch_size=16, warmup_steps=5, schedule="linear", evaluate_every=20
    )
    pair = make_pair()
    result = train(pair, objective, config, tmp_path, progress=False)
    assert result.best_step == 60
    first, last = result.history[0].validation, result.history[-1].validation
    assert "loss" not in last
    assert first["noise_loss"] > 2.3
    assert last["noise_loss"] < 1.5  # the entropy of the distribution is 1.28
    assert last["classifier_loss"] < 0.65  # that of 2 in 8 is .56, and no better can be done
    assert abs(last["log_z"]) < 0.3
    assert all(abs(pair.model.log_partition(stream[:10], position)) < 0.4 for position in (2, 5, 8))


def test_a_rising_noise_starts_as_the_tokens_frequencies():
    """A residual energy of 0 knows the share of noise, however strong; the noise's own loss tells its strength."""
    stream = random_tokens(200)
    frequencies = torch.randn(VOCAB, generator=torch.Generator().manual_seed(3)).log_softmax(0)
    noise = torch.randn(VOCAB, generator=torch.Generator().manual_seed(4))
    objective = NoiseDetection(
        stream, stream, BLOCK, classifier="electric", residual=True, frequencies=frequencies, rising_steps=10
    )
    pair = TablePair(noise, torch.zeros(VOCAB))
    text = objective.validation[:, 1:-1].flatten()
    for step, distribution in ((0, frequencies), (5, (noise + frequencies) / 2), (10, noise), (25, noise)):
        objective.begin(step)
        found = objective.evaluate(pair)
        assert found["noise_loss"] == pytest.approx(-distribution.log_softmax(0)[text].mean().item(), rel=1e-5)
        assert found["classifier_loss"] == pytest.approx(-0.25 * math.log(0.25) - 0.75 * math.log(0.75), rel=1e-5)
        assert found["log_z"] == pytest.approx(0, abs=1e-5)


def test_a_noise_that_rises_needs_frequencies():
    with pytest.raises(LexergyError, match="give `frequencies`"):
        NoiseDetection(random_tokens(40), random_tokens(40), BLOCK, classifier="electric", rising_steps=1)


def test_a_finished_noise_stays_as_it_is(tmp_path):
    stream = random_tokens(400)
    towers = TwoTowerModel.from_shape(replace(SHAPE, dropout=0.5), seed=2)
    before = {name: value.clone() for name, value in towers.state_dict().items()}
    pair = NoisePair(ElectricModel.from_shape(SHAPE, seed=1), towers, finished=True)
    model_before = pair.model.energy.weight.clone()
    objective = NoiseDetection(
        stream,
        stream,
        BLOCK,
        classifier="electric",
        residual=True,
        frequencies=torch.zeros(VOCAB).log_softmax(0),
        rising_steps=2,
    )
    config = TrainingRecipe(learning_rate=1e-2, max_steps=4, batch_size=8, evaluate_every=2)
    result = train(pair, objective, config, tmp_path, progress=False)
    assert all(torch.equal(value, before[name]) for name, value in towers.state_dict().items())
    assert not torch.equal(pair.model.energy.weight, model_before)
    assert not pair.train().noise.training  # so that it drops nothing out
    told = [record.validation["noise_loss"] for record in result.history]
    assert told[0] == pytest.approx(math.log(VOCAB), rel=1e-5)  # step 0: the frequencies
    assert told[1] == told[2]  # steps 2 and 4: full strength
    rising = result.history[1].training["noise_loss"]  # steps 0 and 1: the frequencies, and half of the way
    assert abs(rising - math.log(VOCAB)) > 1e-4
