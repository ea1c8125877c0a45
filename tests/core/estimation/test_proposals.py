"""Tilts: what they draw by, and how they are fitted."""

import pytest
import torch

from lexergy.core.estimation.proposals import LEAST_LOG_PROB, TokenTilt, fit_tilt, likelihood_terms
from lexergy.core.vocabulary import NEVER, summarise


def test_a_token_is_drawn_by_its_guess():
    logits = torch.randn(5, 300, generator=torch.Generator().manual_seed(0)) * 3
    logits[:, 7] = NEVER
    own = torch.randn(300, generator=torch.Generator().manual_seed(1))
    tilt = TokenTilt(own, torch.tensor([0.5, -0.2, 0.1]), torch.tensor([0.3, 0.6]))
    log_prob = logits.double().log_softmax(-1)
    entropy = -(log_prob.exp() * log_prob).sum(-1, keepdim=True)
    bounded = log_prob.clamp(min=LEAST_LOG_PROB)
    guess = own + 0.5 * bounded - 0.2 * bounded**2 + 0.1 * bounded * entropy
    expected = (log_prob - 0.6 * guess).log_softmax(-1)
    found = tilt.tilted(1, logits, summarise(logits)).double().log_softmax(-1)
    torch.testing.assert_close(found[:, 8:], expected[:, 8:], atol=1e-4, rtol=1e-4)
    assert float(found[:, 7].exp().max()) == 0  # what is forbidden stays so
    terms = likelihood_terms(log_prob, entropy) @ tilt.of_likelihood.double()
    torch.testing.assert_close(terms + own, guess)


def test_the_fit_finds_what_tokens_add_whatever_the_context_adds():
    generator = torch.Generator().manual_seed(2)
    features = torch.randn(4000, 6, generator=generator) * torch.tensor([1.0, 1, 1, 1, 1, 100])
    weights = torch.tensor([1.0, -2.0, 0.0, 0.5, 0.0, 0.01])
    groups = torch.arange(4000) // 40
    context = 5 * torch.randn(100, generator=generator)[groups]
    noise = torch.randn(4000, generator=generator)
    fit = fit_tilt(features, features @ weights + context + noise, groups.tolist())
    torch.testing.assert_close(fit.weights.float(), weights, atol=0.06, rtol=0)
    signal = float((features @ weights).var())
    assert fit.explained == pytest.approx(signal / (signal + 1), abs=0.05)


def test_where_nothing_can_be_guessed_nothing_is():
    generator = torch.Generator().manual_seed(3)
    features, added = torch.randn(400, 50, generator=generator), torch.randn(400, generator=generator)
    fit = fit_tilt(features, added, [0] * 400)
    assert abs(fit.explained) < 0.05
    assert float((features.double() @ fit.weights).std()) < 0.1
