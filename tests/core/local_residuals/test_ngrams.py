"""The n-gram estimate against one written down from its definition, and the mixture against plain probabilities."""

import itertools
from collections import Counter, defaultdict

import numpy as np
import pytest
import torch

from lexergy.core.local_residuals.ngrams import find, fit_weights, kneser_ney, mix_
from lexergy.core.local_residuals.unigrams import log_ratio
from lexergy.errors import LexergyError

VOCAB = 5
START = "start"


def documents(lengths=(300, 90, 2, 1), seed=0):
    generator = np.random.default_rng(seed)
    return [generator.choice(VOCAB, length, p=[0.5, 0.25, 0.15, 0.07, 0.03]) for length in lengths]


class ByDefinition:
    """p(w | c) of interpolated modified Kneser-Ney, from dictionaries; `floor` (V,) in the place of unigrams."""

    def __init__(self, texts, order, floor):
        self.floor = floor
        self.counts = {length: defaultdict(Counter) for length in range(1, order)}
        lefts = defaultdict(set)
        for text in texts:
            tokens = [START, *text.tolist()]
            for place in range(1, len(tokens)):
                for length in range(1, order):
                    if place - length < 0:
                        continue
                    context = tuple(tokens[place - length : place])
                    if length == order - 1:
                        self.counts[length][context][tokens[place]] += 1
                    if length > 1:
                        lefts[length - 1, context[1:], tokens[place]].add(context[0])
        for (length, context, token), left in lefts.items():
            self.counts[length][context][token] = len(left)

    def discount(self, length, count):
        of = Counter(count for seen in self.counts[length].values() for count in seen.values())
        single = of[1] / (of[1] + 2 * of[2])
        kind = min(count, 3)
        return kind - (kind + 1) * single * of[kind + 1] / of[kind]

    def prob(self, token, context):
        if not context:
            return self.floor[token]
        seen = self.counts[len(context)].get(context)
        if not seen:
            return self.prob(token, context[1:])
        discounts = {own: self.discount(len(context), count) for own, count in seen.items()}
        total = sum(seen.values())
        own = (seen[token] - discounts[token]) / total if token in seen else 0.0
        return own + sum(discounts.values()) / total * self.prob(token, context[1:])


def dense(matches, floor):
    """The whole distribution (N, V), on an LM's (V,) or (N, V)."""
    probs = matches.left[:, None].double() * floor
    for rows, tokens, own in matches.entries:
        probs.index_put_((rows, tokens), own.double(), accumulate=True)
    return probs


def test_estimate_is_that_of_the_definition():
    texts, floor = documents(), torch.tensor([0.1, 0.2, 0.3, 0.15, 0.25], dtype=torch.double)
    levels = kneser_ney(texts, 3, VOCAB)
    expected = ByDefinition(texts, 3, floor.tolist())
    before = torch.tensor(list(itertools.product(range(-1, VOCAB), range(VOCAB))))  # with and without a token two back
    probs = dense(find(levels, before, VOCAB), floor)
    assert torch.allclose(probs.sum(1), torch.ones(len(probs), dtype=torch.double), atol=1e-6)
    for row, context in enumerate(before.tolist()):
        known = tuple(token for token in context if token >= 0)
        by_hand = torch.tensor([expected.prob(token, known) for token in range(VOCAB)], dtype=torch.double)
        assert torch.allclose(probs[row], by_hand, atol=1e-6), context


def test_the_longest_context_that_was_seen_counts():
    levels = kneser_ney([np.array([0, 1, 2, 3, 0, 1, 2, 4])], 4, VOCAB)
    before = torch.tensor([[0, 1, 2], [3, 1, 2], [-1, 1, 2], [4, 4, 2], [0, 0, 4], [-1, -1, -1]])
    matches = find(levels, before, VOCAB)
    assert matches.length.tolist() == [3, 2, 2, 1, 0, 0]
    assert matches.left[-2:].tolist() == [1, 1]
    seen = {int(row): set() for row in range(6)}
    for rows, tokens, _ in matches.entries:
        for row, token in zip(rows.tolist(), tokens.tolist(), strict=True):
            seen[row].add(token)
    assert seen == {0: {3, 4}, 1: {3, 4}, 2: {3, 4}, 3: {3, 4}, 4: set(), 5: set()}
    shorter = find(levels, before[:, -1:], VOCAB)  # fewer tokens given than the levels could read
    assert shorter.length.tolist() == [1, 1, 1, 1, 0, 0]


def test_no_ngram_crosses_documents():
    levels = kneser_ney([np.array([0, 1, 2]), np.array([3, 4, 2])], 3, VOCAB)
    matches = find(levels, torch.tensor([[1, 2], [2, 3]]), VOCAB)
    assert matches.length.tolist() == [0, 1]  # nothing follows 2; 3 is followed by 4, and 2 is not before it


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_mixture_is_that_of_probabilities(dtype):
    levels = kneser_ney(documents(), 4, VOCAB)
    before = torch.tensor(list(itertools.product(range(-1, VOCAB), repeat=3)))
    logits = torch.randn(len(before), VOCAB, generator=torch.Generator().manual_seed(1), dtype=dtype) * 2 + 7
    lm, weights = logits.double().softmax(-1), torch.tensor([0.5, 0.1, 0.3, 0.6])
    matches = find(levels, before, VOCAB)
    weight = weights.double()[matches.length][:, None]
    expected = (1 - weight) * lm + weight * dense(matches, lm)
    assert torch.allclose(expected.sum(1), torch.ones(len(lm), dtype=torch.double), atol=1e-6)
    mixed = mix_(logits.clone(), matches, weights).double().softmax(-1)
    assert torch.allclose(mixed, expected, atol=1e-6)
    columns = logits.t().contiguous().t()  # as the sampler's step has them
    assert torch.allclose(mix_(columns, matches, weights).double().softmax(-1), expected, atol=1e-6)
    assert torch.equal(mix_(logits.clone(), matches, torch.zeros(4)), logits)


def test_weights_are_the_likeliest():
    generator = torch.Generator().manual_seed(3)
    levels = kneser_ney(documents(), 3, VOCAB)
    text = torch.from_numpy(documents((400,), seed=5)[0])
    before, tokens = torch.stack((text[:-2], text[1:-1]), 1), text[2:]
    before[::3, 0] = -1
    matches = find(levels, before, VOCAB)
    lm_prob = torch.rand(len(tokens), generator=generator) * 0.6
    ngram_prob = matches.prob_of(tokens)
    assert torch.allclose(ngram_prob, dense(matches, torch.zeros(VOCAB)).float()[torch.arange(len(tokens)), tokens])
    weights = fit_weights(lm_prob, ngram_prob, matches, 3)

    def log_likelihood(given):
        weight = given[matches.length]
        return float(((1 - weight + weight * matches.left) * lm_prob + weight * ngram_prob).log().sum())

    best = log_likelihood(weights)
    assert 0.05 < weights[1] < 0.95
    assert weights[0] == 0 or not (matches.length == 0).any()
    for length, step in itertools.product((1, 2), (-0.02, 0.02)):
        other = weights.clone()
        other[length] = (other[length] + step).clamp(0, 0.99)
        assert log_likelihood(other) <= best


def test_too_little_to_count():
    with pytest.raises(LexergyError, match="at least 2"):
        kneser_ney(documents(), 1, VOCAB)
    with pytest.raises(LexergyError, match="no tokens"):
        kneser_ney([np.array([], np.int64)], 3, VOCAB)


def test_log_ratio_by_hand():
    """Of 20 tokens the domain has 10, 8, 2, 0; of 5 the LM expects 1, 2, 2, 0."""
    ratio = log_ratio(torch.tensor([10, 8, 2, 0]), torch.tensor([1.0, 2.0, 2.0, 0.0]), 0.5)
    expected = torch.tensor([3 / 1.5, 2.5 / 2.5, 1 / 2.5, 1]).log()
    assert torch.allclose(ratio, expected)
