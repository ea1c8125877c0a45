import math

import pytest
import torch

from lexergy.core.search_aware.beam_search import advance
from lexergy.core.search_aware.label_bias import (
    ANDOR_EXAMPLE,
    global_probabilities,
    largest_lead_dropped,
    local_probabilities,
)


def best_local_by_gradient(whole: bool) -> list[float]:
    """The likelihood of Andor et al.'s example maximised over free tables of logits, with no counting."""
    logits = torch.zeros(2, 5, dtype=torch.double, requires_grad=True)  # by what is known of the input at the fork
    for _ in range(400):
        after_a = logits.log_softmax(-1)
        log_probs = after_a[0, 1], after_a[1 if whole else 0, 3]  # B for "a b c", D for "a b e"
        loss = -sum(log_probs)
        (gradient,) = torch.autograd.grad(loss, logits)
        logits = (logits - 5.0 * gradient).detach().requires_grad_()
    return [math.exp(value.item()) for value in log_probs]


def test_with_partial_input_local_models_share_one_unit_of_mass():
    local = local_probabilities(ANDOR_EXAMPLE, "past")
    assert local == [0.5, 0.5]
    assert local == pytest.approx(best_local_by_gradient(whole=False), abs=1e-3)


def test_with_partial_input_global_models_need_not():
    """A B C has 3 known decisions; A B * and A D * have 2 (4 and 5 of them); A * * has 1 (3 * 5); the rest none."""
    weight = 3.0
    total = math.exp(3 * weight) + 9 * math.exp(2 * weight) + 15 * math.exp(weight) + 100
    assert global_probabilities(ANDOR_EXAMPLE, "past", weight) == pytest.approx([math.exp(3 * weight) / total] * 2)
    growing = [global_probabilities(ANDOR_EXAMPLE, "past", weight)[0] for weight in (2.0, 4.0, 8.0, 16.0)]
    assert growing == sorted(growing)
    assert growing[-1] > 0.999


def test_with_the_whole_input_they_tie():
    assert local_probabilities(ANDOR_EXAMPLE, "whole") == [1, 1]
    assert best_local_by_gradient(whole=True) == pytest.approx([1, 1], abs=1e-2)
    assert global_probabilities(ANDOR_EXAMPLE, "whole", 20.0) == pytest.approx([1, 1], abs=1e-6)


@pytest.mark.parametrize(("num_symbols", "beam"), [(2, 2), (6, 2), (9, 3)])
def test_the_lead_that_local_normalisation_can_undo(num_symbols, beam):
    """At best the wrong hypothesis spreads its mass evenly and the right one has k equal continuations."""
    right = torch.full((num_symbols,), -1e9).double()
    right[:beam] = 0
    step_scores = torch.stack([torch.zeros(num_symbols).double(), right]).log_softmax(-1)
    limit = largest_lead_dropped(num_symbols, beam, normalised=True)
    over = torch.zeros(1, 2, dtype=torch.bool)
    for lead, dropped in ((limit - 1e-6, True), (limit + 1e-6, False)):
        step = advance(torch.tensor([[lead, 0.0]]).double(), step_scores[None], over, beam)
        assert bool((step.parents == 1).all()) == dropped
    assert largest_lead_dropped(num_symbols, beam, normalised=False) == math.inf
