"""The chain of two writers against the sum over all ways to write a text."""

import math
from itertools import pairwise, product

import pytest
import torch

from lexergy.core.detection.two_writers import TwoWriters, fit_two_writers, log_probability
from lexergy.errors import LexergyError

LOG_ODDS = torch.tensor([1.3, -0.4, 0.2, -2.1, 0.9], dtype=torch.double)


def enumerated(chain, log_odds, prior):
    """log of the unnormalised probability of each path: {path: value}."""
    to_machine, to_people = 2 * chain.rate * prior, 2 * chain.rate * (1 - prior)
    step = {(0, 0): 1 - to_machine, (0, 1): to_machine, (1, 0): to_people, (1, 1): 1 - to_people}
    return {
        path: math.log(prior if path[0] else 1 - prior)
        + sum(math.log(step[pair]) for pair in pairwise(path))
        + sum(y * (chain.scale * value + chain.offset) for y, value in zip(path, log_odds.tolist(), strict=True))
        for path in product((0, 1), repeat=len(log_odds))
    }


@pytest.mark.parametrize("prior", [0.5, 0.1])
@pytest.mark.parametrize("length", [1, 2, 5])
def test_probabilities_are_those_of_all_paths(prior, length):
    chain = TwoWriters(0.15, 0.7, -0.3)
    weights = {path: math.exp(value) for path, value in enumerated(chain, LOG_ODDS[:length], prior).items()}
    expected = [sum(w for path, w in weights.items() if path[t]) / sum(weights.values()) for t in range(length)]
    assert chain.probabilities(LOG_ODDS[:length], prior).tolist() == pytest.approx(expected, abs=1e-12)


def test_the_likelihood_of_writers_is_that_of_their_path():
    chain = TwoWriters(0.15, 0.7, -0.3)
    paths = enumerated(chain, LOG_ODDS, 0.5)
    total = math.log(sum(map(math.exp, paths.values())))
    parameters = torch.tensor([chain.rate, chain.scale, chain.offset], dtype=torch.double)
    short = enumerated(chain, LOG_ODDS[:2], 0.5)
    expected = [
        paths[1, 1, 0, 0, 1] - total,
        short[0, 1] - math.log(sum(map(math.exp, short.values()))),
        paths[0, 0, 0, 1, 1] - total,
    ]
    labels = torch.tensor([(1, 1, 0, 0, 1), (0, 1, 1, 0, 1), (0, 0, 0, 1, 1)]).T  # (S, N), the second of two sentences
    values = log_probability(LOG_ODDS[:, None].expand(5, 3), labels, torch.tensor([5, 2, 5]), parameters)
    assert values.tolist() == pytest.approx(expected, abs=1e-12)


def test_without_company_a_sentence_is_its_own_evidence():
    alone = TwoWriters(0.5, 2.0, 0.5).probabilities(LOG_ODDS)
    assert torch.allclose(alone, (2 * LOG_ODDS + 0.5).sigmoid())
    together = TwoWriters(0.0).probabilities(LOG_ODDS)
    assert torch.allclose(together, LOG_ODDS.sum().sigmoid().expand(5))


def test_the_prior_is_that_of_any_sentence_without_evidence():
    nothing = torch.zeros(4)
    assert torch.allclose(TwoWriters(0.2).probabilities(nothing, 0.02), torch.full((4,), 0.02, dtype=torch.double))


def drawn(rate, num_texts, seed):
    """Texts of ten sentences of a chain, with evidence that is right at half its strength."""
    generator = torch.Generator().manual_seed(seed)
    first = torch.rand(num_texts, 1, generator=generator) < 0.5
    changes = torch.rand(num_texts, 9, generator=generator) < rate
    labels = torch.cat((first, changes), 1).long().cumsum(1) % 2 == 1  # (N, 10)
    sign = torch.where(labels, 1.0, -1.0)
    evidence = sign + torch.randn(num_texts, 10, generator=generator) * 2**0.5  # log-odds: N(±1, 2)
    return list(2 * evidence), list(labels)


def test_what_is_fitted_is_what_was_drawn():
    fitted = fit_two_writers(*drawn(0.1, 400, 0))
    assert fitted.rate == pytest.approx(0.1, abs=0.02)
    assert fitted.scale == pytest.approx(0.5, abs=0.06)
    assert fitted.offset == pytest.approx(0.0, abs=0.12)
    probabilities = torch.cat([fitted.probabilities(own) for own in drawn(0.1, 400, 1)[0]])
    labels = torch.cat(drawn(0.1, 400, 1)[1])
    for low in (0.1, 0.3, 0.5, 0.7):
        inside = (probabilities >= low) & (probabilities < low + 0.2)
        share = float(labels[inside].double().mean())
        error = 4 * (0.25 / int(inside.sum())) ** 0.5
        assert share == pytest.approx(float(probabilities[inside].mean()), abs=error)


def test_texts_of_one_writer_leave_a_rate_above_nothing():
    log_odds, _ = drawn(0.1, 20, 0)
    fitted = fit_two_writers(log_odds, [(own.sum() > 0).expand(10) for own in log_odds])
    assert 0 < fitted.rate < 0.01


def test_what_cannot_be_a_chain_is_refused():
    with pytest.raises(LexergyError, match="expected at least one"):
        fit_two_writers([], [])
    with pytest.raises(LexergyError, match="one finite number"):
        TwoWriters(0.1).probabilities(torch.tensor([math.nan]))
