import math

import pytest
import torch
from torch import nn

from lexergy.errors import LexergyError
from lexergy.training.objectives.contrastive import (
    ContrastiveData,
    NoiseContrastive,
    Ranking,
    evaluating,
    pair_energies,
)
from lexergy.training.randomness import step_generator
from toys.training import ToyEnergy, toy_data, toy_objective


class TokenTable(nn.Module):
    """E(x) = weight[first token of the continuation], plus the first feature where there are some."""

    def __init__(self, weights):
        super().__init__()
        self.weight = nn.Parameter(torch.tensor(weights))
        self.calls = []

    def score(self, prefix, continuations, features=None):
        self.calls.append((prefix, continuations, features))
        energies = self.weight[continuations[..., 0]]
        return energies if features is None else energies + features[..., 0]


MININGS = ("random", "hardest", "all")


def one_row(**features):
    return ContrastiveData(
        prefixes=torch.tensor([[9]]),
        continuations=torch.tensor([[0]]),
        negatives=torch.tensor([[[1], [2]]]),
        **features,
    )


def softplus(x):
    return math.log1p(math.exp(x))


def test_evaluate_is_equation_3_over_all_negatives():
    metrics = NoiseContrastive(one_row(), one_row()).evaluate(TokenTable([-1.0, 2.0, -0.5]))
    assert metrics["loss"] == pytest.approx(softplus(-1.0) + (softplus(-2.0) + softplus(0.5)) / 2)
    assert metrics["accuracy"] == pytest.approx((1.0 + 0.5) / 2)
    assert metrics["energy_data"] == pytest.approx(-1.0)
    assert metrics["energy_noise"] == pytest.approx(0.75)
    assert metrics["log_z"] == pytest.approx(math.log((math.exp(-2.0) + math.exp(0.5)) / 2))


def test_loss_scores_positive_and_one_negative_in_one_call():
    energy = TokenTable([-1.0, 2.0, -0.5])
    loss, metrics = NoiseContrastive(one_row(), one_row()).loss(energy, torch.tensor([0]), step_generator(0, 0))
    ((prefix, continuations, features),) = energy.calls
    assert prefix.tolist() == [[9]]
    assert continuations.shape == (1, 2, 1)
    assert features is None
    negative = energy.weight[continuations[0, 1, 0]].item()
    assert continuations[0, 1, 0] in (1, 2)
    assert loss.item() == pytest.approx(softplus(-1.0) + softplus(-negative))
    assert metrics["energy_noise"] == pytest.approx(negative)


def test_features_follow_their_continuations():
    data = one_row(
        features=torch.tensor([[10.0]]), negative_features=torch.tensor([[[20.0], [30.0]]])
    )  # (N, F), (N, K, F)
    energy = TokenTable([0.0, 1.0, 2.0])
    metrics = NoiseContrastive(data, data).evaluate(energy)
    assert metrics["energy_data"] == pytest.approx(10.0)
    assert metrics["energy_noise"] == pytest.approx((21.0 + 32.0) / 2)
    NoiseContrastive(data, data).loss(energy, torch.tensor([0]), step_generator(0, 0))
    _, continuations, features = energy.calls[-1]
    assert features[0, 1, 0] == 10 + 10 * continuations[0, 1, 0]


def test_negatives_are_drawn_uniformly():
    """Chi-square over 5 negatives: fails for one seed in a thousand if the draw is uniform."""
    rows, kinds, steps = 40, 5, 50
    data = ContrastiveData(
        prefixes=torch.zeros(rows, 1, dtype=torch.long),
        continuations=torch.zeros(rows, 1, dtype=torch.long),
        negatives=torch.arange(kinds).view(1, kinds, 1).expand(rows, -1, -1),
    )
    energy = TokenTable([0.0] * kinds)
    for step in range(steps):
        NoiseContrastive(data, data).loss(energy, torch.arange(rows), step_generator(0, step))
    drawn = torch.cat([continuations[:, 1, 0] for _, continuations, _ in energy.calls])
    expected = rows * steps / kinds
    statistic = float(((drawn.bincount(minlength=kinds) - expected) ** 2 / expected).sum())
    assert statistic < 18.47  # 0.999 quantile of chi-square with 4 degrees of freedom
    by_row = drawn.view(steps, rows)
    assert (by_row.sort(dim=0).values.diff(dim=0) != 0).any(dim=0).all()  # each row meets several negatives


def test_evaluate_does_not_depend_on_its_batches(monkeypatch):
    energy = ToyEnergy(dropout=0.5)
    whole = toy_objective().evaluate(energy)
    monkeypatch.setattr("lexergy.training.objectives.contrastive.EVALUATION_ROWS", 5)
    assert toy_objective().evaluate(energy) == pytest.approx(whole, abs=1e-6)


def test_evaluating_stops_dropout_and_puts_the_mode_back():
    energy = ToyEnergy(dropout=0.5).train()
    with evaluating(energy):
        assert not energy.training
        assert not torch.is_grad_enabled()
    assert energy.training
    assert energy.head[0].training


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"prefixes": torch.zeros(3, 1)}, "prefixes"),
        ({"negatives": torch.zeros(2, 3, 4)}, "negatives"),
        ({"features": torch.zeros(2, 6)}, "negative_features"),
        ({"features": torch.zeros(2, 6), "negative_features": torch.zeros(2, 3, 7)}, "negative_features"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(changes, message):
    good = {name: getattr(toy_data(2, 0), name) for name in ("prefixes", "continuations", "negatives")}
    with pytest.raises(LexergyError, match=message):
        ContrastiveData(**{**good, **changes})


def test_noise_energies_are_subtracted_in_their_places():
    data = one_row(noise_energies=torch.tensor([[0.5, -1.0, 3.0]]))
    metrics = NoiseContrastive(data, data).evaluate(TokenTable([-1.0, 2.0, -0.5]))
    assert metrics["loss"] == pytest.approx(softplus(-1.5) + (softplus(-3.0) + softplus(3.5)) / 2)


def test_under_any_noise_the_best_energy_is_that_of_the_data():
    """With noise P = P_LM exp(-E_noise), the minimum lies at E = log P_LM - log p_data all the same."""
    lm, data, noise = torch.tensor([[0.5, 0.3, 0.2], [0.1, 0.4, 0.5], [0.2, 0.6, 0.2]])
    noise_energy = lm.log() - noise.log()  # (V,)
    people, machine = (
        torch.arange(3).repeat_interleave((10 * distribution).round().long()) for distribution in (data, noise)
    )
    rows = ContrastiveData(
        prefixes=torch.zeros(10, 1, dtype=torch.long),
        continuations=people[:, None],
        negatives=machine[None, :, None].expand(10, -1, -1),
        noise_energies=torch.cat((noise_energy[people, None], noise_energy[machine].expand(10, -1)), 1),
    )
    best = lm.log() - data.log()

    def loss(energy):
        return NoiseContrastive(rows, rows).evaluate(TokenTable(energy.tolist()))["loss"]

    for token in range(3):
        for change in (-0.05, 0.05):
            moved = best.clone()
            moved[token] += change
            assert loss(moved) > loss(best) + 1e-6


OBJECTIVES = pytest.mark.parametrize("kind", [NoiseContrastive, Ranking])


@OBJECTIVES
def test_of_one_negative_all_minings_are_alike(kind):
    data, energy = toy_data(12, seed=1, num_negatives=1), ToyEnergy()
    indices = torch.arange(12)
    losses = [kind(data, data, mining).loss(energy, indices, step_generator(0, 0))[0] for mining in MININGS]
    assert losses[0] == losses[1] == losses[2]
    evaluations = [kind(data, data, mining).evaluate(energy) for mining in MININGS]
    assert evaluations[0] == evaluations[1] == evaluations[2]


@OBJECTIVES
def test_all_negatives_are_the_mean_over_them(kind):
    data, energy = toy_data(9, seed=1, num_negatives=4), ToyEnergy()
    loss, _ = kind(data, data, "all").loss(energy, torch.arange(9), step_generator(0, 0))
    singles = []
    for place in range(4):
        one = ContrastiveData(data.prefixes, data.continuations, data.negatives[:, place : place + 1])
        singles.append(kind(one, one).loss(energy, torch.arange(9), step_generator(0, 0))[0])
    torch.testing.assert_close(loss, torch.stack(singles).mean())


def test_the_hardest_negative_is_met_whatever_the_generator():
    energy = TokenTable([-1.0, 2.0, -0.5])
    for step in range(4):
        objective = NoiseContrastive(one_row(), one_row(), "hardest")
        loss, metrics = objective.loss(energy, torch.tensor([0]), step_generator(0, step))
        assert loss.item() == pytest.approx(softplus(-1.0) + softplus(0.5))
        assert metrics["energy_noise"] == -0.5
    loss.backward()
    assert energy.weight.grad[1] == 0  # the easier negative is not touched
    assert energy.weight.grad[2] < 0


def test_the_hardest_negatives_are_those_of_the_examples_dropout_apart():
    data, energy = toy_data(20, seed=1), ToyEnergy(dropout=0.9).train()
    every = pair_energies(energy, data)[:, 1:].argmin(-1)  # (N,)
    indices = torch.tensor([7, 3, 12, 3])
    chosen = NoiseContrastive(data, data, "hardest")._chosen(energy, indices, step_generator(0, 0))
    assert chosen.squeeze(1).tolist() == every[indices].tolist()
    assert energy.training


def test_validation_reads_the_hardest_negative_where_training_does():
    energy = TokenTable([-1.0, 2.0, -0.5])
    metrics = NoiseContrastive(one_row(), one_row(), "hardest").evaluate(energy)
    assert metrics["loss"] == pytest.approx(softplus(-1.0) + softplus(0.5))
    assert metrics["accuracy"] == pytest.approx((1.0 + 0.5) / 2)  # of all negatives


def test_ranking_by_hand():
    objective = Ranking(one_row(), one_row(), "all", margin=1.0)
    metrics = objective.evaluate(TokenTable([0.0, 0.5, -0.5]))
    assert metrics["loss"] == pytest.approx((0.5 + 1.5) / 2)
    assert metrics["precision_at_1"] == 0
    assert objective.evaluate(TokenTable([-1.0, 0.5, -0.5]))["precision_at_1"] == 1
    hardest = Ranking(one_row(), one_row(), "hardest", margin=0.1).evaluate(TokenTable([0.0, 0.5, -0.5]))
    assert hardest["loss"] == pytest.approx(0.6)
