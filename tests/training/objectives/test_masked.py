import pytest
import torch

from lexergy.core.enumeration import all_sequences
from lexergy.models.architectures.masked_lstm import PAD, MaskedLSTM
from lexergy.recipes.sections.training import TrainingRecipe
from lexergy.training.loop import train
from lexergy.training.objectives.masked import (
    SequenceObjective,
    likelihood,
    masked_conditionals,
    projection,
    pseudo_likelihood,
    sampled_projection,
    sampled_pseudo_likelihood,
    sequence_losses,
    true_conditionals,
)

TOKENS = torch.tensor([[0, 2, 1], [1, 1, 0], [2, 0, 2]])


def lstm(seed=0, hidden_size=5):
    model = MaskedLSTM(3, hidden_size, seed=seed).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3)
    return model


def energy_of(model, *tokens):
    return float(model.energy(torch.tensor([tokens])).detach())


def test_likelihood_is_that_of_the_enumerated_law():
    model = lstm()
    distribution = (-model.energy(all_sequences(3, 3))).softmax(0)
    loss = sequence_losses(likelihood, model, all_sequences(3, 3))
    torch.testing.assert_close((-loss).exp(), distribution.detach())
    assert float((-loss).exp().sum()) == pytest.approx(1)


def test_pseudo_likelihood_by_hand():
    model = lstm()
    expected = 0.0
    for position, token in enumerate((0, 2, 1)):
        variants = []
        for word in range(3):
            changed = [0, 2, 1]
            changed[position] = word
            variants.append(-energy_of(model, *changed))
        expected -= float(torch.tensor(variants).double().log_softmax(0)[token])
    assert float(pseudo_likelihood(model, TOKENS[:1]).detach()) == pytest.approx(expected)


def test_masked_conditionals_by_hand():
    model = lstm()
    logits = model.masked_logits(TOKENS[:1])[0].detach().log_softmax(-1)
    assert float(masked_conditionals(model, TOKENS[:1]).detach()) == pytest.approx(
        float(-(logits[0, 0] + logits[1, 2] + logits[2, 1]))
    )


def test_projection_is_zero_at_a_teacher_whose_conditionals_are_true():
    """One token alone: the masked conditional is the energy's own."""
    teacher = lstm()
    single = torch.tensor([[0], [2]])
    assert float(projection(teacher)(teacher, single).detach().abs().max()) < 1e-12
    assert float(projection(teacher)(lstm(seed=1), single).detach().min()) > 1e-3


def test_projection_by_hand_and_with_likelihood():
    model, teacher = lstm(), lstm(seed=1)
    wanted = teacher.masked_logits(TOKENS).softmax(-1)
    found = true_conditionals(model, TOKENS)
    by_hand = (wanted * (wanted.log() - found)).sum(dim=(1, 2))
    torch.testing.assert_close(projection(teacher)(model, TOKENS), by_hand)
    both = projection(teacher, with_likelihood=True)(model, TOKENS)
    torch.testing.assert_close(both, by_hand + pseudo_likelihood(model, TOKENS))


@pytest.mark.parametrize("name", ["pseudo_likelihood", "kl", "kl_pll"])
def test_one_position_at_a_time_has_the_same_mean(name):
    """Over many draws; the standard error of the mean bounds the gap, at four of them."""
    model, tokens = lstm(), torch.tensor([[0, 2, 1], [1, 2, PAD]])
    teacher = MaskedLSTM(3, 4, seed=7)
    with_likelihood = name == "kl_pll"
    if name == "pseudo_likelihood":
        sampled, loss = sampled_pseudo_likelihood(tokens, tokens), pseudo_likelihood
    else:
        sampled = sampled_projection(teacher, tokens, tokens, with_likelihood=with_likelihood)
        loss = projection(teacher, with_likelihood=with_likelihood)
    exact = float(sequence_losses(loss, model, tokens).mean())
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        draws = torch.stack([sampled.loss(model, torch.tensor([0, 1]), generator)[0] for _ in range(100)])
    assert abs(float(draws.mean()) - exact) < 4 * float(draws.std()) / 10
    assert float(draws.std()) > 0.01
    assert sampled.evaluate(model)["loss"] == pytest.approx(exact)


@pytest.mark.parametrize("loss", [masked_conditionals, pseudo_likelihood, likelihood], ids=lambda loss: loss.__name__)
def test_each_objective_trains(loss, tmp_path):
    """Sequences that say the same token three times: any objective finds them likelier than others."""
    same = torch.arange(3)[:, None].expand(-1, 3).repeat(8, 1)
    model = MaskedLSTM(3, 8, seed=0)
    config = TrainingRecipe(learning_rate=0.05, max_steps=30, batch_size=12, evaluate_every=30)
    result = train(model, SequenceObjective(loss, same, same), config, tmp_path, progress=False)
    assert result.validation["loss"] < result.history[0].validation["loss"]
    energies = model.energy_table(3).detach()
    uniform = torch.tensor([0, 13, 26])
    assert float(energies[uniform].max()) < float(energies.median())
