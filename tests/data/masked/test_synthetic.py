import itertools
import math

import pytest
import torch

from lexergy.core.enumeration import all_sequences
from lexergy.data.masked.synthetic import _forward, hidden_markov, palindromes
from lexergy.errors import LexergyError


def test_palindromes_have_their_share():
    distribution = palindromes()
    assert float(distribution.log_probs.exp().sum()) == pytest.approx(1)
    assert float(distribution.log_prob(torch.tensor([[0, 1, 2, 1, 0]])).exp()) == pytest.approx(0.8 / 125)
    assert float(distribution.log_prob(torch.tensor([[0, 1, 2, 1, 1]])).exp()) == pytest.approx(0.2 / 3000)
    assert distribution.entropy == pytest.approx(0.8 * math.log(125 / 0.8) + 0.2 * math.log(3000 / 0.2))


def test_a_forward_sums_over_its_hidden_paths():
    generator = torch.Generator().manual_seed(0)
    shapes = (1, 4), (4, 4), (4, 3)
    logits = [torch.randn(shape, generator=generator, dtype=torch.double) for shape in shapes]
    initial, transition, emission = (part.softmax(-1) for part in logits)
    distribution = _forward(logits, length=3)
    for row, log_prob in zip(all_sequences(3, 3).tolist(), distribution.log_probs, strict=True):
        total = sum(
            initial[0, a] * emission[a, row[0]] * transition[a, b] * emission[b, row[1]] * transition[b, c]
            * emission[c, row[2]]
            for a, b, c in itertools.product(range(4), repeat=3)
        )  # fmt: skip
        assert float(total) == pytest.approx(float(log_prob.exp()))


@pytest.mark.parametrize("entropy", [5.0, 6.43])
def test_a_hidden_markov_model_has_the_entropy_asked_for(entropy):
    distribution = hidden_markov(entropy, seed=0)
    assert distribution.entropy == pytest.approx(entropy, abs=1e-5)
    assert float(distribution.log_probs.exp().sum()) == pytest.approx(1)
    sample = distribution.sample(20000, seed=1)
    assert float(-distribution.log_prob(sample).mean()) == pytest.approx(entropy, abs=0.05)
    assert torch.equal(sample, distribution.sample(20000, seed=1))


def test_an_impossible_entropy():
    with pytest.raises(LexergyError, match="`entropy` is 9 nats"):
        hidden_markov(9, seed=0)
