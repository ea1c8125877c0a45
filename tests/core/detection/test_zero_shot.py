"""Zero-shot scores against sums written out, token by token."""

import math

import pytest
import torch

from lexergy.core.detection.zero_shot import (
    SCORERS,
    TokenStatistics,
    bits_ratio,
    cross_moments,
    rank_tail,
    tail_varentropy,
)

Q = torch.tensor([[0.5, 0.3, 0.2], [0.1, 0.8, 0.1], [0.25, 0.25, 0.5]], dtype=torch.double)
P = torch.tensor([[0.2, 0.2, 0.6], [0.3, 0.6, 0.1], [0.9, 0.05, 0.05]], dtype=torch.double)
TOKENS = [0, 2, 1]


def statistics(q, p, tokens):
    mean, variance = cross_moments(q.log() + 3, p.log() - 2)  # logits are known up to a constant
    ranks = [sum(float(value > row[token]) for value in row) for row, token in zip(q, tokens, strict=True)]
    log_prob = q.log()[range(len(tokens)), tokens]
    return TokenStatistics(log_prob, mean, variance, torch.tensor(ranks, dtype=torch.double).log1p())


def by_hand(q, p):
    """Log-probabilities, expectations and variances in plain Python."""
    log_probs = [math.log(row[token]) for row, token in zip(q.tolist(), TOKENS, strict=True)]
    means, variances = [], []
    for q_row, p_row in zip(q.tolist(), p.tolist(), strict=True):
        mean = sum(b * math.log(a) for a, b in zip(q_row, p_row, strict=True))
        means.append(mean)
        variances.append(sum(b * math.log(a) ** 2 for a, b in zip(q_row, p_row, strict=True)) - mean**2)
    return log_probs, means, variances


@pytest.mark.parametrize("p", [Q, P], ids=["one LM", "two LMs"])
def test_every_score_by_hand(p):
    log_probs, means, variances = by_hand(Q, p)
    log_ranks = [0.0, math.log(2), math.log(2)]  # of equally likely tokens neither is before the other
    centre = sum(log_probs) / 3
    expected = {
        "likelihood": centre,
        "log-rank": -sum(log_ranks) / 3,
        "curvature": (sum(log_probs) - sum(means)) / math.sqrt(sum(variances)),
        "ratio": -(sum(log_probs) / sum(means)),
        "rank-tail": 0,
        "tail-varentropy": -sum(variances) / 30,
    }
    tokens = statistics(Q, p, TOKENS)
    found = {name: float(terms(tokens).mean()) for name, terms in SCORERS.items()}
    assert found == pytest.approx(expected)


def test_of_one_lm_the_cross_entropy_is_the_entropy():
    mean, variance = cross_moments(Q.log(), Q.log())
    torch.testing.assert_close(mean, (Q * Q.log()).sum(-1))
    assert float(variance[1]) == pytest.approx(0.8 * 0.2 * math.log(8) ** 2)  # two values, .8 and .2 of the time


def test_a_token_that_cannot_be_drawn_counts_nothing():
    impossible = torch.cat((Q.log(), torch.full((3, 1), -1e9, dtype=torch.double)), 1)
    for with_it, without in zip(cross_moments(impossible, impossible), cross_moments(Q.log(), Q.log()), strict=True):
        torch.testing.assert_close(with_it, without)


def test_beyond_a_hundred_ranks_by_hand():
    ranks = torch.tensor([0.0, 98, 99, 199, 9999]).double()
    tokens = TokenStatistics(*(torch.zeros(5).double() for _ in range(3)), ranks.log1p())
    assert rank_tail(tokens).tolist() == pytest.approx([0, 0, 0, -math.log(2), -math.log(100)])
    wide = tokens._replace(variance=torch.tensor([0.0, 10, 0, 5, 0]).double())
    assert tail_varentropy(wide).tolist() == pytest.approx([0, -1, 0, -math.log(2) - 0.5, -math.log(100)])


@pytest.mark.parametrize("name", [name for name in SCORERS if "tail" not in name])
def test_likelier_text_is_more_a_machines(name):
    """A text of the likeliest tokens against the same with its second token an unlikely one."""
    expected, surprising = (statistics(Q, Q, tokens) for tokens in ([0, 1, 2], [0, 2, 2]))
    assert float(SCORERS[name](expected).mean()) > float(SCORERS[name](surprising).mean())


def test_bits_for_a_character_by_hand():
    tokens, second = statistics(Q, Q, TOKENS), statistics(P, P, TOKENS)
    first_bits = -sum(math.log(row[token]) for row, token in zip(Q.tolist(), TOKENS, strict=True)) / 10
    second_bits = -sum(math.log(row[token]) for row, token in zip(P.tolist(), TOKENS, strict=True)) / 7
    assert float(bits_ratio(tokens, 10, second, 7).mean()) == pytest.approx(-first_bits / second_bits)


def test_an_lm_that_is_certain_gives_finite_scores():
    certain = TokenStatistics(*(torch.zeros(3, dtype=torch.double) for _ in range(4)))
    assert all(terms(certain).isfinite().all() for terms in SCORERS.values())
    assert bits_ratio(certain, 0, certain, 0).isfinite().all()
