"""The mixture of two kinds of machines against densities that are known, and its terms against its gradient."""

import math

import pytest
import torch

from lexergy.core.detection.assistant import AssistantScore
from lexergy.core.detection.calibration import Calibration
from lexergy.core.detection.machine import MachineScore, mixed
from lexergy.core.detection.sample import MEASURES, SampleScore
from lexergy.core.detection.wording import Wording, WordingWeights
from lexergy.core.detection.zero_shot import TokenStatistics

TERMS = torch.tensor([[0.5, -1.0, 3.5], [2.0, 2.0, -1.0]], dtype=torch.double)  # of means 1 and 1
SHARES = (0.8, 0.2)


def density(value, mean):
    return math.exp(-((value - mean) ** 2) / 2)


@pytest.mark.parametrize("value", [-2.0, 0.3, 1.7, 6.0])
def test_the_energy_is_the_log_ratio_of_the_mixture_to_people(value):
    """People N(0, 1), machines .8 N(2, 1) + .2 N(-3, 1): each kind's ratio is known, and so is the mixture's."""
    means = (2.0, -3.0)
    ratios = [math.log(density(value, mean) / density(value, 0)) for mean in means]
    terms = torch.tensor(ratios, dtype=torch.double).unsqueeze(1).expand(2, 5)
    mixture = sum(share * density(value, mean) for share, mean in zip(SHARES, means, strict=True))
    assert float(mixed(terms, SHARES).mean()) == pytest.approx(math.log(mixture / density(value, 0)))


def test_a_token_counts_by_how_likely_each_kind_is():
    terms = TERMS + torch.tensor([[0.0], [1.5]])
    likely = [0.8 * math.exp(1.0), 0.2 * math.exp(2.5)]
    first = likely[0] / sum(likely)
    found = mixed(terms, SHARES)
    weighed = [first * one + (1 - first) * other for one, other in zip(*terms.tolist(), strict=True)]
    assert float(found.mean()) == pytest.approx(math.log(sum(likely)))
    assert [own - found[0].item() for own in found.tolist()] == pytest.approx([own - weighed[0] for own in weighed])


def test_what_a_token_counts_is_what_its_change_does_to_the_energy():
    """dE / de_kt = r_k / n: moved by little, the energy moves as the terms say."""
    terms = TERMS.clone().requires_grad_()
    mixed(terms, SHARES).mean().backward()
    assert terms.grad is not None
    likely = torch.tensor(SHARES).double() * TERMS.mean(1).exp()
    expected = (likely / likely.sum()).unsqueeze(1).expand(2, 3) / 3
    torch.testing.assert_close(terms.grad, expected)


def test_where_one_kind_speaks_the_other_cannot_silence_it():
    for silent in (-5.0, -50.0):
        energy = float(mixed(torch.tensor([[4.0], [silent]], dtype=torch.double), SHARES))
        assert energy == pytest.approx(4 + math.log(0.8), abs=1e-3)


def test_kinds_of_one_opinion_are_as_one():
    same = torch.stack((TERMS[0], TERMS[0]))
    torch.testing.assert_close(mixed(same, SHARES), TERMS[0])


def test_the_whole_energy_by_hand():
    tokens = TokenStatistics(
        *(torch.tensor(own).double() for own in ([-1.0, -6.0], [-2.0, -2.0], [1.0, 4.0])),
        torch.tensor([0, 299]).double().log1p(),
    )
    wording = Wording(("the", "-ing"), (0, 1), (3.0,))
    weights = WordingWeights(("the", "-ing"), (0.5, -1.0), (1.0, 1.5), habits=(2.0,))
    assistant = AssistantScore((-3.5, -0.2, -5.0), (0.5, 0.1, 2.0), weights, share=0.4)
    sample = SampleScore(tuple(float(name == "log-probability") for name in MEASURES))
    ratios = (Calibration(slope=2.0, offset=-1.0), Calibration(slope=0.5, offset=1.0, half_tokens=6.0))
    score = MachineScore(assistant, sample, ratios, SHARES)
    first = 2 * float(assistant.terms(tokens, wording).mean()) - 1
    second = (0.5 * -3.5 + 1) * 3 / (3 + 6)  # three tokens say a third of what a text without end would
    expected = math.log(0.8 * math.exp(first) + 0.2 * math.exp(second))
    assert float(score.terms(tokens, wording).mean()) == pytest.approx(expected)
