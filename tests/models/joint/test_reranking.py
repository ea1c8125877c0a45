"""Candidates from anywhere, against exact enumeration."""

import math

import pytest
import torch

from lexergy.core.candidates import GivenCandidate
from lexergy.core.conditions import Conditions
from lexergy.core.enumeration import all_sequences
from lexergy.errors import LexergyError
from lexergy.models.joint.model import ResidualEBM
from lexergy.models.joint.reranking import rerank
from lexergy.testing import EnumerableLM, TableEnergy, chi_square_p_value, exact_log_prob, joint_log_prob
from toys.joint import table

PREFIX = torch.tensor([3])


@pytest.fixture(scope="module")
def joint() -> ResidualEBM:
    return ResidualEBM(EnumerableLM(num_layers=1), TableEnergy(length=3, scale=1.5))


@pytest.fixture(scope="module")
def everything() -> list[GivenCandidate]:
    return [GivenCandidate(tokens=tuple(row.tolist())) for row in all_sequences(7, 2)]


def weights(ranked) -> torch.Tensor:
    return torch.tensor([candidate.weight for candidate in ranked.candidates], dtype=torch.double)


def test_the_list_of_all_texts_is_weighed_by_the_joint_model_itself(joint, everything):
    ranked = joint.rerank([3], everything, weigh_by="joint")
    exact = joint_log_prob(joint.lm, table(joint), PREFIX, 2)
    assert torch.allclose(weights(ranked).log(), exact, atol=1e-5)
    assert ranked.best == int(exact.argmax())
    log_prob = torch.tensor([candidate.log_prob for candidate in ranked.candidates], dtype=torch.double)
    assert torch.allclose(log_prob, exact_log_prob(joint.lm, PREFIX, 2), atol=1e-5)


def test_candidates_of_another_distribution_are_weighed_against_it(joint, everything):
    other = exact_log_prob(EnumerableLM(seed=4), PREFIX, 2)
    given = [GivenCandidate(tokens=item.tokens, log_prob=float(q)) for item, q in zip(everything, other, strict=True)]
    expected = (joint_log_prob(joint.lm, table(joint), PREFIX, 2) - other).softmax(0)
    assert torch.allclose(weights(joint.rerank([3], given)), expected, atol=1e-6)


def test_samples_of_the_lm_get_the_weights_that_generation_gives_them(joint):
    out = joint.generate([3], num_candidates=30, max_new_tokens=2, seed=2)
    given = [GivenCandidate(tokens=candidate.tokens) for candidate in out.candidates]
    ranked = joint.rerank([3], given)
    assert weights(ranked).tolist() == pytest.approx([candidate.weight for candidate in out.candidates])
    assert (ranked.ess, ranked.best) == (pytest.approx(out.ess), 0)
    assert math.isfinite(ranked.pareto_k) == math.isfinite(out.pareto_k)


def test_what_is_drawn_follows_the_weights(joint, everything):
    # Chi-square over 250 streams; a right draw fails with probability 1e-4.
    few = everything[:6]
    draws = [rerank(joint, [3], few, stream=stream).drawn for stream in range(250)]
    counts = torch.tensor(draws).bincount(minlength=6)
    expected = weights(joint.rerank([3], few))
    assert chi_square_p_value(counts, expected) > 1e-4
    assert chi_square_p_value(counts, (1 / expected) / (1 / expected).sum()) < 1e-9


def test_each_candidate_is_read_at_its_own_length():
    joint = ResidualEBM(EnumerableLM(), lambda tokens: 0.1 * (tokens + 1).sum(1))  # padding would count
    given = [GivenCandidate(tokens=tokens) for tokens in ((5, 6), (1,), (2, 4, 6))]
    together = joint.rerank([3], given, weigh_by="joint").candidates
    for candidate, item in zip(together, given, strict=True):
        (alone,) = joint.rerank([3], [item]).candidates
        assert candidate.energy == pytest.approx(0.1 * (4 + sum(item.tokens) + len(item.tokens)), abs=1e-6)
        assert (candidate.energy, candidate.log_prob) == pytest.approx((alone.energy, alone.log_prob), abs=1e-5)


def test_a_use_unlike_the_training_is_told():
    joint = ResidualEBM(EnumerableLM(), lambda tokens: 0.1 * tokens.sum(1), Conditions(prefix=1, continuation=12))
    (told,) = joint.rerank([3], [GivenCandidate(tokens=(1, 2))]).warnings
    assert "continuations of 12; here the prompt has 1 and 2 are written" in told


@pytest.mark.parametrize(
    ("candidates", "options", "message"),
    [
        ([], {}, "expected at least one continuation"),
        ([GivenCandidate(tokens=())], {}, "candidate 1 is empty"),
        ([GivenCandidate(tokens=(1,), log_prob=-1.0), GivenCandidate(tokens=(2,))], {}, "1 of 2 candidates have"),
        ([GivenCandidate(tokens=(1,), log_prob=-1.0)], {"weigh_by": "joint"}, "nobody drew; expected either"),
    ],
)
def test_mistakes(joint, candidates, options, message):
    with pytest.raises(LexergyError, match=message):
        joint.rerank([3], candidates, **options)
