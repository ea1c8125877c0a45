"""Chances of a sentence against sums by hand and simulated votes, and the power of an exact test."""

import numpy as np
import pytest
from scipy.stats import binom

from lexergy.core.text_measures.sample_size import power, sentence_outcome, sentences_needed
from lexergy.errors import LexergyError


def test_three_votes_by_hand():
    outcome = sentence_outcome(0.6, 3)
    assert outcome.less == pytest.approx(0.6**3 + 3 * 0.6**2 * 0.4)
    assert (outcome.equal, outcome.asked) == (0, 1)
    assert sum(outcome[:3]) == pytest.approx(1)


def test_ties_dropped_votes_and_unlike_sentences_against_simulation():
    generator = np.random.default_rng(0)
    rate, votes, ties, dropped, correlation = 0.65, 3, 0.2, 0.1, 0.3
    spread = (1 - correlation) / correlation
    chance = generator.beta(rate * spread, (1 - rate) * spread, (200_000, 1))
    kept = generator.random((200_000, votes)) >= dropped
    decided = kept & (generator.random(kept.shape) >= ties)
    second = decided & (generator.random(kept.shape) < chance)
    lead = 2 * second.sum(1) - decided.sum(1)
    asked = kept.any(1)
    outcome = sentence_outcome(rate, votes, ties=ties, dropped=dropped, correlation=correlation)
    simulated = [(lead[asked] > 0).mean(), (lead[asked] == 0).mean(), (lead[asked] < 0).mean(), asked.mean()]
    np.testing.assert_allclose(outcome, simulated, atol=0.005)


def test_power_is_that_of_the_exact_test():
    critical = next(k for k in range(334) if binom.sf(k - 1, 333, 0.5) <= 0.05)
    assert power(np.array([333]), 0.58)[0] == pytest.approx(binom.sf(critical - 1, 333, 0.58))
    assert power(np.array([333]), 0.5)[0] <= 0.05


def test_sentences_needed():
    needed = sentences_needed(0.58)
    assert 230 < needed < 270  # (1.645 / 2 + .8416 sqrt(.58 x .42))^2 / .08^2 = 239, and an exact test needs a few more
    assert power(np.arange(needed, needed + 500), 0.58).min() >= 0.8
    assert power(np.array([needed - 1]), 0.58)[0] < 0.8
    assert sentences_needed(0.5) is None
    assert sentences_needed(0.9) < sentences_needed(0.6)


@pytest.mark.parametrize("wrong", [{"rate": 1.0}, {"rate": 0.6, "ties": 1.0}, {"rate": 0.6, "dropped": -0.1}])
def test_shares_are_shares(wrong):
    with pytest.raises(LexergyError, match="expected a share"):
        sentence_outcome(votes=3, **wrong)
