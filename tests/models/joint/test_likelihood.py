"""Log-likelihoods of given continuations against exact enumeration."""

import math

import pytest
import torch

from lexergy.core.enumeration import all_sequences
from lexergy.errors import LexergyError
from lexergy.models.joint.likelihood import Given, Space, chunked, estimate_log_z, score_given, text_bounds
from lexergy.testing import exact_log_prob, joint_log_prob, log_partition
from toys.harness import exact, table_of_lengths, word_joint

PREFIX = (3, 1)


@pytest.fixture(scope="module")
def joint():
    return word_joint()


def test_among_texts_of_one_length_scores_differ_as_the_exact_joint_model_does(joint):
    texts = [tuple(text) for text in all_sequences(7, 2).tolist()]
    scores = torch.tensor([item.log_score for item in score_given(joint, [Given(PREFIX, text) for text in texts])])
    truth = joint_log_prob(joint.lm, table_of_lengths, torch.tensor(PREFIX), 2)
    assert torch.allclose(scores.double() - scores[0], truth - truth[0], atol=1e-5)
    assert float((truth - exact_log_prob(joint.lm, torch.tensor(PREFIX), 2)).abs().max()) > 1, "the energy must matter"


def test_prefixes_and_lengths_may_be_mixed(joint):
    given = [Given((1,), (2, 5)), Given(PREFIX, (4,)), Given((1,), (6,)), Given((1,), (2, 5))]
    together = score_given(joint, given)
    alone = [score_given(joint, [item])[0] for item in given]
    for mixed, single in zip(together, alone, strict=True):
        assert mixed == pytest.approx(single, abs=1e-5)


def test_log_z_of_each_length_is_near_the_exact_one(joint):
    spaces = [Space(PREFIX, 1), Space(PREFIX, 3), Space((5, 2), 3)]
    estimates = estimate_log_z(joint, spaces, num_samples=4000)
    for space, estimate in estimates.items():
        truth = float(log_partition(joint.lm, table_of_lengths, torch.tensor(space.prefix), space.length))
        error = math.sqrt((4000 / estimate.ess - 1) / 4000)
        assert abs(estimate.value - truth) < 4 * error < 0.2
        assert estimate.value < estimate.upper
    assert len({round(estimate.value, 3) for estimate in estimates.values()}) == 3


def test_log_z_is_the_same_in_any_company_and_told_where_it_cannot_be_trusted(joint):
    spaces = [Space((5,), 2), Space(PREFIX, 2), Space((6,), 2)]
    together = estimate_log_z(joint, spaces, num_samples=30, seed=3)
    for space in spaces:
        assert estimate_log_z(joint, [space], num_samples=30, seed=3)[space].value == together[space].value
        assert estimate_log_z(joint, [space], num_samples=30, seed=4)[space].value != together[space].value
    assert estimate_log_z(joint, spaces[:1], num_samples=20)[spaces[0]].is_doubtful  # too few to tell
    assert not estimate_log_z(joint, spaces[:1], num_samples=2000)[spaces[0]].is_doubtful


def test_the_bound_of_a_chunk_is_that_of_two_candidates(joint):
    """E[log P_LM(x) - E(x) - log (w(x) + w(y)) / 2] over y of the LM: averaged over seeds, and below the density."""
    given = Given(PREFIX, (2, 5))
    lm = exact_log_prob(joint.lm, torch.tensor(PREFIX), 2).exp()  # (49,)
    whole = torch.cat([torch.tensor(PREFIX).expand(49, -1), all_sequences(7, 2)], 1)
    weights = (-table_of_lengths(whole)).exp()
    own = 2 * 7 + 5
    expected = float(lm[own].log() + (lm * (2 * weights[own] / (weights[own] + weights)).log()).sum())
    density = float((2 * lm[own] * (lm * weights[own] / (weights[own] + weights)).sum()).log())
    drawn = torch.tensor([text_bounds(joint, [given], num_samples=2, seed=seed)[0].bound for seed in range(120)])
    assert abs(float(drawn.mean()) - expected) < 4 * float(drawn.std()) / math.sqrt(120) < 0.4
    assert expected < density
    assert text_bounds(joint, [given], num_samples=2000)[0].bound == pytest.approx(exact(joint, *given), abs=0.15)
    with pytest.raises(LexergyError, match="at least 2"):
        text_bounds(joint, [given], num_samples=1)


def test_each_token_of_a_text_stands_in_one_chunk():
    chunks = chunked([1, 2, 3, 4, 5], [0], chunk_tokens=2, context_tokens=3)
    assert chunks == [Given((0,), (1, 2)), Given((0, 1, 2), (3, 4)), Given((2, 3, 4), (5,))]
