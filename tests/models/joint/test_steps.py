"""The joint model token by token (Eq. 5), against exact enumeration."""

import math

import pytest
import torch
from torch import Tensor

from lexergy.core.enumeration import all_sequences
from lexergy.errors import LexergyError
from lexergy.models.energies import StatesEnergy, SumEnergy
from lexergy.models.joint.model import ResidualEBM
from lexergy.testing import EnumerableLM, TableEnergy, exact_log_prob, joint_log_prob
from toys.energies import wake
from toys.joint import MANY_ROWS, PREFIXES, WINDOWS, table


@pytest.fixture(scope="module", params=["gpt2", "llama"])
def joint(request) -> ResidualEBM:
    return ResidualEBM(EnumerableLM(architecture=request.param), TableEnergy())


def exact_steps(joint: ResidualEBM, window: Tensor) -> Tensor:  # -> (3,)
    distribution = joint_log_prob(joint.lm, table(joint), window[:1], 3).exp().reshape(7, 7, 7)
    first, second, third = window[1:].tolist()
    marginals = torch.stack(
        [
            distribution.sum(),
            distribution[first].sum(),
            distribution[first, second].sum(),
            distribution[first, second, third],
        ]
    )
    return (marginals[1:] / marginals[:-1]).log()


def test_step_probabilities(joint):
    steps = joint.step_probabilities(WINDOWS, prefix_length=1, num_samples=5000, rows_per_batch=MANY_ROWS)
    exact = torch.stack([exact_steps(joint, window) for window in WINDOWS])
    base = torch.cat([joint.lm.token_log_prob(window[None], prefix_length=1) for window in WINDOWS])
    torch.testing.assert_close(steps.base, base, atol=1e-4, rtol=0)
    # Of 5,000 samples, a difference of two log Z has a standard error of about 0.02.
    torch.testing.assert_close(steps.lower, exact, atol=0.1, rtol=0)
    torch.testing.assert_close(steps.upper, exact, atol=0.1, rtol=0)
    torch.testing.assert_close(steps.last_exact, exact[:, -1], atol=1e-4, rtol=0)
    assert (steps.lower < steps.upper).all()
    assert ((exact - base).abs() > 0.4).sum() >= 2, "the energy must matter for this test to mean anything"


def test_step_bounds_bracket_in_expectation(joint):
    window = WINDOWS[2:]
    steps = joint.step_probabilities(window.expand(8000, -1), 1, num_samples=12, rows_per_batch=MANY_ROWS)
    exact = exact_steps(joint, window[0])
    for values, sign in ((steps.lower, -1), (steps.upper, 1)):
        standard_error = values.std(dim=0) / math.sqrt(8000)
        assert (sign * (values.mean(dim=0) - exact) > 2 * standard_error).all()


def test_last_step_skips_forbidden_tokens():
    joint = ResidualEBM(EnumerableLM(forbidden_tokens=(2, 5)), TableEnergy())
    window = torch.tensor([[1, 1, 3, 0]])
    exact = exact_steps(joint, window[0])
    steps = joint.step_probabilities(window, prefix_length=1, num_samples=2)
    assert float(steps.last_exact[0]) == pytest.approx(float(exact[-1]), abs=1e-4)


def test_last_step_by_the_likeliest_tokens(joint):
    """All seven enumerated are exact; of three, one drawn token stands for the other four, without bias in 1 / P."""
    exact = torch.stack([exact_steps(joint, window) for window in WINDOWS])[:, -1]

    def last(enumerated: int, seed: int = 0) -> torch.Tensor:
        return joint.step_probabilities(WINDOWS, 1, num_samples=2, seed=seed, enumerated=enumerated).last_exact

    torch.testing.assert_close(last(7), exact, atol=1e-4, rtol=0)
    inverse = torch.stack([(-last(3, seed)).exp() for seed in range(0, 4000, 10)])  # (S, B), D_T up to a factor
    error = inverse.std(dim=0) / math.sqrt(len(inverse))
    assert (error > 0).any(), "something must be drawn"
    assert ((inverse.mean(dim=0) - (-exact).exp()).abs() < 4 * error + 2e-3).all()  # energies in float32
    with pytest.raises(LexergyError, match="`enumerated` is 0"):
        last(0)


def test_next_token(joint):
    prefix = PREFIXES[1]
    distribution = joint_log_prob(joint.lm, table(joint), prefix, 3).exp().reshape(7, 49).sum(1)
    base = joint.lm.next_log_prob(prefix[None])[0].exp()
    result = joint.next_token(prefix.tolist(), num_samples=5000, horizon=3, rows_per_batch=MANY_ROWS)
    assert (result.num_candidates, len(result.entries)) == (7, 7)
    assert result.base_mass == pytest.approx(1)
    for entry in result.entries:
        assert entry.joint == pytest.approx(float(distribution[entry.token]), abs=0.02)
        assert entry.base == pytest.approx(float(base[entry.token]), abs=1e-6)
    assert [entry.joint for entry in result.entries] == sorted((e.joint for e in result.entries), reverse=True)
    assert [entry.base for entry in result.base_entries] == sorted((e.base for e in result.entries), reverse=True)
    assert [entry.joint_rank for entry in result.entries] == list(range(7))
    assert [entry.base_rank for entry in result.base_entries] == list(range(7))


def test_next_token_renormalises_over_its_candidates(joint):
    prefix = PREFIXES[0]
    result = joint.next_token(prefix, candidates=3, num_samples=50, horizon=3, top=2)
    more = joint.next_token(prefix, candidates=7, num_samples=50, horizon=3)
    assert (result.num_candidates, len(result.entries), len(result.base_entries)) == (3, 2, 2)
    probabilities = {entry.token: entry for entry in more.entries}
    kept = [entry.token for entry in more.base_entries[:3]]
    for entry in result.entries:
        for kind in ("base", "joint"):
            total = sum(getattr(probabilities[token], kind) for token in kept)
            expected = getattr(probabilities[entry.token], kind) / total
            assert getattr(entry, kind) == pytest.approx(expected, rel=1e-6)
    assert result.base_mass == pytest.approx(sum(probabilities[token].base for token in kept))


def test_next_token_at_horizon_one_is_exact():
    joint = ResidualEBM(EnumerableLM(forbidden_tokens=(6,)), TableEnergy(length=2))
    distribution = joint_log_prob(joint.lm, table(joint), PREFIXES[0], 1).exp()
    result = joint.next_token(PREFIXES[0], horizon=1)
    assert {e.token: pytest.approx(e.joint, abs=1e-6) for e in result.entries} == {
        token: float(distribution[token]) for token in range(6)
    }
    with pytest.raises(LexergyError, match="`horizon` is 0"):
        joint.next_token(PREFIXES[0], horizon=0)


class LengthEnergy:
    """Three times the last token's number over the continuation's length: it matters where that begins."""

    features = None

    def score(self, prefix, continuations, features=None):
        return 3 * continuations[..., -1] / continuations.shape[-1]


@pytest.mark.parametrize("horizon", [1, 2])
def test_next_token_within_a_continuation(horizon):
    """The energy sees the given tokens as part of the continuation, not of the prefix."""
    joint = ResidualEBM(EnumerableLM(), LengthEnergy())
    context = torch.tensor([1, 4, 2])
    ends = all_sequences(7, horizon)  # (7 ** H, H)
    log_law = exact_log_prob(joint.lm, context, horizon) - 3 * ends[:, -1] / (2 + horizon)
    distribution = log_law.softmax(0).reshape(7, -1).sum(1)
    options = {"num_samples": 5_000, "horizon": horizon, "rows_per_batch": MANY_ROWS}
    result = joint.next_token(context, given=2, **options)
    for entry in result.entries:
        assert entry.joint == pytest.approx(float(distribution[entry.token]), abs=1e-6 if horizon == 1 else 0.02)
    elsewhere = joint.next_token(context, **options).base_entries
    assert max(abs(a.joint - b.joint) for a, b in zip(result.base_entries, elsewhere, strict=True)) > 0.03
    with pytest.raises(LexergyError, match="`given` is 3 for a prompt of 3 tokens"):
        joint.next_token(context, given=3)


@pytest.mark.parametrize("reads_states", [False, True])
def test_a_text_that_has_ended_is_its_own_only_completion(reads_states):
    lm = EnumerableLM(sharpness=2.0).ending(0)

    def short(tokens):  # (N, L) -> (N,)
        return 3.0 * (tokens.shape[1] == 2) + 0.0 * tokens[:, 0]

    states = wake(StatesEnergy.for_lm(lm, layers=(1,)))
    energy = SumEnergy.of([short, states], [1.0, 1e-3]) if reads_states else short
    joint = ResidualEBM(lm, energy)
    shown = joint.next_token([1], candidates=7, num_samples=6, horizon=4, top=7)
    base = lm.next_log_prob(torch.tensor([[1]]))[0].exp()
    penalised = torch.where(torch.arange(7) == 0, base * math.exp(-3.0), base)
    expected = penalised / penalised.sum()
    for entry in shown.entries:
        assert entry.joint == pytest.approx(float(expected[entry.token]), abs=1e-2 if reads_states else 1e-5)
    energy = SumEnergy.of([short, states]) if reads_states else short
    joint = ResidualEBM(lm, energy)
    steps = joint.step_probabilities(torch.tensor([[1, 4, 0, 0, 0]]), prefix_length=1, num_samples=6)
    for bound in (steps.base, steps.lower, steps.upper):
        torch.testing.assert_close(bound[0, 2:], torch.zeros(2, dtype=torch.double), atol=1e-5, rtol=0)
    assert float(steps.last_exact) == pytest.approx(0, abs=1e-5)
