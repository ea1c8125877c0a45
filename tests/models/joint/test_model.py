"""The joint model against exact enumeration: vocabulary 7, sequences of 4 tokens."""

import math
import warnings
import weakref
from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from lexergy.core.enumeration import all_sequences
from lexergy.core.estimation.importance import effective_sample_size
from lexergy.core.estimation.perplexity import perplexity_from_weights
from lexergy.errors import LexergyError
from lexergy.models.causal.state_features import StateFeatures
from lexergy.models.joint.model import ResidualEBM
from lexergy.models.joint.sampling import UnreliableWeightsWarning
from lexergy.testing import (
    EnumerableLM,
    TableEnergy,
    chi_square_p_value,
    exact_log_prob,
    joint_log_prob,
    log_partition,
)

PREFIXES = torch.tensor([[1], [3], [5]])
MANY_ROWS = 8192  # the models are tiny: few large batches are fastest
WINDOWS = torch.tensor([[1, 1, 3, 0], [3, 1, 2, 4], [5, 0, 6, 2]])


@pytest.fixture(scope="module", params=["gpt2", "llama"])
def joint(request) -> ResidualEBM:
    return ResidualEBM(EnumerableLM(architecture=request.param), TableEnergy())


@pytest.fixture(scope="module")
def gpt() -> ResidualEBM:
    return ResidualEBM(EnumerableLM(num_layers=1), TableEnergy(length=3, scale=1.5))


def table(joint: ResidualEBM) -> TableEnergy:
    return joint.energy.function


def random_energy(scale: float, power: int):
    """scale * u^power with u uniform, whatever the text: -40 u^8 gives weights of a very heavy tail."""
    generator = torch.Generator().manual_seed(0)
    return lambda tokens: scale * torch.rand(len(tokens), generator=generator) ** power


def index(continuation: Tensor | tuple[int, ...]) -> int:
    return sum(int(token) * 7**place for place, token in enumerate(reversed([*continuation])))


def exact_window_log_prob(joint: ResidualEBM, window: Tensor) -> float:
    distribution = joint_log_prob(joint.lm, table(joint), window[:1], 3)
    return float(distribution[index(window[1:])])


# -- log Z ---------------------------------------------------------------------------------------------------


def test_log_z_lies_between_the_expectations_of_the_bounds(joint):
    # The same prefix 4,000 times with samples of its own each time: an average over seeds. The expectations
    # are 6 standard errors or more from the truth.
    prefix = PREFIXES[2]
    truth = float(log_partition(joint.lm, table(joint), prefix, 3))
    bounds = joint.log_z(prefix.expand(4000, -1), length=3, num_samples=12, seed=1, rows_per_batch=MANY_ROWS)
    for values, sign in ((bounds.lower, -1), (bounds.upper, 1)):
        distance = sign * (float(values.mean()) - truth)
        standard_error = float(values.std()) / math.sqrt(4000)
        assert 2 * standard_error < distance < 0.15


def test_log_z_converges_and_is_per_prefix(joint):
    bounds = joint.log_z(PREFIXES, length=3, num_samples=20_000, rows_per_batch=MANY_ROWS)
    truth = torch.stack([log_partition(joint.lm, table(joint), prefix, 3) for prefix in PREFIXES])
    assert bounds.lower.shape == bounds.upper.shape == bounds.ess.shape == bounds.pareto_k.shape == (3,)
    # Four standard errors of log Z, sqrt((n / ESS - 1) / n).
    assert ((bounds.lower - truth).abs() < 4 * ((20_000 / bounds.ess - 1) / 20_000).sqrt()).all()
    assert (bounds.lower < bounds.upper).all()


def test_batches_and_companions_change_nothing(joint):
    options = {"length": 3, "num_samples": 50, "seed": 3}
    whole = joint.log_weights(PREFIXES, **options)
    assert torch.equal(whole, joint.log_weights(PREFIXES, **options, rows_per_batch=7))
    assert torch.equal(whole[1:], joint.log_weights(PREFIXES[1:], **options, prefix_ids=[1, 2]))
    assert not torch.equal(whole, joint.log_weights(PREFIXES, **{**options, "seed": 4}))


# -- perplexity ----------------------------------------------------------------------------------------------


def test_perplexity_brackets_the_exact_one(joint):
    exact = math.exp(-sum(exact_window_log_prob(joint, window) for window in WINDOWS) / 9)
    repeated = WINDOWS.repeat(1600, 1)
    estimate = joint.perplexity(repeated, prefix_length=1, num_samples=12, seed=0, rows_per_batch=MANY_ROWS)
    base = exact_log_prob(joint.lm, WINDOWS[0, :1], 3)[index(WINDOWS[0, 1:])]
    assert float(estimate.windows.base_log_prob[0]) == pytest.approx(float(base), abs=1e-4)
    # The expectations are about 6 standard errors from the truth.
    for log_z, perplexity, sign in (
        (estimate.windows.log_z_lower, estimate.lower, -1),
        (estimate.windows.log_z_upper, estimate.upper, 1),
    ):
        per_round = log_z.reshape(1600, 3).mean(dim=1) / 3  # of log perplexity
        standard_error = float(per_round.std()) / math.sqrt(1600)
        assert 2 * standard_error < sign * math.log(perplexity / exact) < 0.05


def test_perplexity_of_many_samples_is_tight(joint):
    exact = math.exp(-sum(exact_window_log_prob(joint, window) for window in WINDOWS) / 9)
    estimate = joint.perplexity(WINDOWS, 1, num_samples=5000, rows_per_batch=MANY_ROWS)
    assert estimate.lower < estimate.upper
    assert estimate.upper == pytest.approx(exact, rel=0.03)
    assert abs(math.log(estimate.base / exact)) > 0.1, "the energy must matter for this test to mean anything"


def test_perplexity_takes_windows(joint):
    class Windows(NamedTuple):
        tokens: Tensor
        prefix_length: int

    rows = joint.perplexity(WINDOWS, prefix_length=1, num_samples=30)
    windows = joint.perplexity(Windows(WINDOWS, 1), num_samples=30)
    assert (windows.lower, windows.upper, windows.base) == (rows.lower, rows.upper, rows.base)
    with pytest.raises(LexergyError, match="prefix_length"):
        joint.perplexity(WINDOWS)
    with pytest.raises(LexergyError, match="leave it out"):
        joint.perplexity(Windows(WINDOWS, 1), prefix_length=2)
    with pytest.raises(LexergyError, match="at least 2"):
        joint.perplexity(WINDOWS, 1, num_samples=1)


def test_zero_energy_is_the_base_model(joint):
    nothing = ResidualEBM(joint.lm, lambda tokens: torch.zeros(len(tokens)))
    estimate = nothing.perplexity(WINDOWS, 1, num_samples=40)
    assert estimate.lower == pytest.approx(estimate.base, rel=1e-9)
    assert estimate.upper == pytest.approx(estimate.base, rel=1e-9)
    assert (estimate.gain, estimate.ess) == pytest.approx((0, 40))


def test_perplexity_from_weights_by_hand():
    base_log_prob, energy = torch.tensor([-6.0, -8.0]), torch.tensor([-1.0, 0.5])
    log_weights = torch.tensor([[1.0, 3.0], [2.0, 2.0]]).log()
    estimate = perplexity_from_weights(base_log_prob, energy, log_weights, continuation_length=2)
    # n = 2: T = log 2 for both; the upper bound is 3 T - 2 (log 1 + log 3) / 2 for the first window.
    upper = 3 * math.log(2) - math.log(3)
    assert estimate.base == pytest.approx(math.exp(14 / 4))
    assert estimate.lower == pytest.approx(math.exp((14 - 1 + 0.5 + 2 * math.log(2)) / 4))
    assert estimate.upper == pytest.approx(math.exp((14 - 0.5 + upper + math.log(2)) / 4))
    assert estimate.gain == pytest.approx(math.log(estimate.base / estimate.upper))
    assert estimate.ess == pytest.approx((16 / 10 + 2) / 2)
    assert math.isnan(estimate.pareto_k)
    assert (estimate.num_windows, estimate.num_samples, estimate.continuation_length) == (2, 2, 2)
    # Two windows a, b: a resample's mean is a, (a + b) / 2 or b, so its deviation is |a - b| / sqrt(8).
    first, second = (1 - upper) / 2, (-0.5 - math.log(2)) / 2
    assert estimate.gain_std_error == pytest.approx(abs(first - second) / math.sqrt(8), rel=0.08)
    with pytest.raises(LexergyError, match=r"\(B,\), \(B,\) and \(B, n\)"):
        perplexity_from_weights(base_log_prob, energy[:1], log_weights, 2)


def test_standard_error_covers_the_spread_between_sets_of_windows():
    generator = torch.Generator().manual_seed(0)
    base_log_prob = torch.randn(200, 50, generator=generator) * 4 - 30
    log_weights = torch.zeros(50, 2)
    estimates = [perplexity_from_weights(row, torch.zeros(50), log_weights, 10) for row in base_log_prob]
    spread = torch.tensor([estimate.upper for estimate in estimates]).std()
    assert estimates[0].std_error == pytest.approx(float(spread), rel=0.35)
    assert sum(e.std_error for e in estimates) / 200 == pytest.approx(float(spread), rel=0.1)


def test_curve_narrows_to_the_estimate(joint):
    curve = joint.perplexity(WINDOWS.repeat(20, 1), 1, num_samples=64).curve
    assert [point.num_samples for point in curve] == [4, 8, 16, 32, 64]
    gaps = [point.upper - point.lower for point in curve]
    assert gaps == sorted(gaps, reverse=True)
    assert gaps[0] > 4 * gaps[-1] > 0


def test_samples_are_let_go_as_they_are_scored():
    class WatchedLM(EnumerableLM):
        drawn: list[weakref.ref]
        largest = alive = 0

        def sample(self, *args, **options):
            samples = super().sample(*args, **options)
            self.largest = max(self.largest, samples.tokens.shape[0] * samples.tokens.shape[1])
            self.drawn.append(weakref.ref(samples.tokens))
            self.alive = max(self.alive, sum(reference() is not None for reference in self.drawn))
            return samples

    peaks = []
    for num_samples in (200, 3200):
        lm = WatchedLM(num_layers=1)
        lm.drawn = []
        ResidualEBM(lm, TableEnergy()).perplexity(WINDOWS, 1, num_samples=num_samples, rows_per_batch=64)
        assert len(lm.drawn) == 3 * math.ceil(num_samples / 64)
        peaks.append((lm.largest, lm.alive))
    assert peaks == [(64, 2), (64, 2)]  # the chunk just drawn, and the one before it until the name moves on


def test_heavy_tails_are_reported():
    cliff = ResidualEBM(EnumerableLM(), random_energy(-40.0, 8))
    estimate = cliff.perplexity(WINDOWS, 1, num_samples=200)
    assert estimate.pareto_k > estimate.pareto_k_threshold
    assert estimate.pareto_k_above > 0.5
    assert not estimate.reliable
    gentle = ResidualEBM(EnumerableLM(), random_energy(1.0, 1))
    assert gentle.perplexity(WINDOWS, 1, num_samples=200).reliable


# -- Eq. 5 ---------------------------------------------------------------------------------------------------


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
    steps = joint.step_probabilities(window.expand(2000, -1), 1, num_samples=12, rows_per_batch=MANY_ROWS)
    exact = exact_steps(joint, window[0])
    for values, sign in ((steps.lower, -1), (steps.upper, 1)):
        standard_error = values.std(dim=0) / math.sqrt(2000)
        assert (sign * (values.mean(dim=0) - exact) > 2 * standard_error).all()


def test_last_step_skips_forbidden_tokens():
    joint = ResidualEBM(EnumerableLM(forbidden_tokens=(2, 5)), TableEnergy())
    window = torch.tensor([[1, 1, 3, 0]])
    exact = exact_steps(joint, window[0])
    steps = joint.step_probabilities(window, prefix_length=1, num_samples=2)
    assert float(steps.last_exact[0]) == pytest.approx(float(exact[-1]), abs=1e-4)


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


# -- generation ----------------------------------------------------------------------------------------------


def generated(joint: ResidualEBM, num_seeds: int, **options) -> Tensor:  # -> (49,)
    counts = torch.zeros(49)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnreliableWeightsWarning)
        for seed in range(num_seeds):
            out = joint.generate([3], num_candidates=128, max_new_tokens=2, seed=seed, **options)
            counts[index(out.tokens)] += 1
    return counts


@pytest.mark.parametrize("truncation", [{}, {"top_k": 4}])
def test_generate_follows_the_exact_joint(gpt, truncation):
    # Chi-square over 300 seeds; a right sampler fails with probability 1e-4.
    distribution = joint_log_prob(gpt.lm, table(gpt), torch.tensor([3]), 2, **truncation).exp()
    counts = generated(gpt, 300, **truncation)
    assert chi_square_p_value(counts, distribution) > 1e-4
    wrong_sign = joint_log_prob(gpt.lm, lambda x: -table(gpt)(x), torch.tensor([3]), 2, **truncation).exp()
    base = exact_log_prob(gpt.lm, torch.tensor([3]), 2, **truncation).exp()
    untruncated = joint_log_prob(gpt.lm, table(gpt), torch.tensor([3]), 2).exp()
    assert chi_square_p_value(counts, wrong_sign) < 1e-9
    assert chi_square_p_value(counts, base) < 1e-9
    assert not truncation or chi_square_p_value(counts, untruncated) < 1e-4


def test_generation_carries_its_candidates(gpt):
    out = gpt.generate(torch.tensor([3]), num_candidates=20, max_new_tokens=2, seed=5)
    samples = gpt.lm.sample(torch.tensor([[3]]), num_samples=20, max_new_tokens=2, seed=5)
    assert out.base.tokens == tuple(samples.tokens[0, 0].tolist())
    assert out.candidates[out.chosen].tokens == tuple(out.tokens.tolist())
    assert sorted(index(c.tokens) for c in out.candidates) == sorted(index(row) for row in samples.tokens[0])
    energies = [candidate.energy for candidate in out.candidates]
    assert energies == sorted(energies)
    weights = torch.tensor([-energy for energy in energies]).softmax(0)
    distribution = exact_log_prob(gpt.lm, torch.tensor([3]), 2)
    for candidate, weight in zip(out.candidates, weights, strict=True):
        whole = torch.tensor([[3, *candidate.tokens]])
        assert candidate.energy == pytest.approx(float(table(gpt)(whole)[0]))
        assert candidate.log_prob == pytest.approx(float(distribution[index(candidate.tokens)]), abs=1e-4)
        assert candidate.weight == pytest.approx(float(weight), abs=1e-6)
    assert out.log_weights.tolist() == [-energy for energy in energies]
    assert out.ess == pytest.approx(float(effective_sample_size(out.log_weights)))
    assert math.isnan(out.pareto_k)
    assert out.text == ""


def test_candidates_grow_until_the_effective_sample_size_suffices(gpt):
    fixed = gpt.generate([3], num_candidates=24, max_new_tokens=2)
    few = gpt.generate([3], num_candidates=24, max_new_tokens=2, target_ess=0.9 * fixed.ess)
    assert len(few.candidates) == 24
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnreliableWeightsWarning)
        more = gpt.generate([3], num_candidates=10, max_new_tokens=2, target_ess=25)
        spent = gpt.generate([3], num_candidates=10, max_new_tokens=2, target_ess=60, max_candidates=70)
    assert len(more.candidates) in (40, 80, 160)
    assert more.ess >= 25
    assert len(spent.candidates) == 70
    assert spent.ess < 60
    drawn = gpt.lm.sample(torch.tensor([[3]]), num_samples=70, max_new_tokens=2)
    assert sorted(index(c.tokens) for c in spent.candidates) == sorted(index(row) for row in drawn.tokens[0])


def test_generation_warns_of_heavy_tails():
    cliff = ResidualEBM(EnumerableLM(), random_energy(-40.0, 8))
    with pytest.warns(UnreliableWeightsWarning, match="raise `num_candidates`") as caught:
        out = cliff.generate([3], num_candidates=100, max_new_tokens=2)
    assert out.pareto_k > 0.5
    assert caught[0].filename == __file__


def test_stop_token_ends_a_candidate(gpt):
    joint = ResidualEBM(gpt.lm, lambda tokens: tokens.sum(1).double())
    out = joint.generate([3], num_candidates=60, max_new_tokens=5, stop_token=1)
    ended = [c.tokens for c in out.candidates if c.tokens[-1] == 1]
    assert {len(tokens) for tokens in ended} >= {1, 2}
    assert all(1 not in tokens[:-1] for tokens in ended)
    assert all(len(c.tokens) == 5 for c in out.candidates if c.tokens[-1] != 1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"prompt": []}, "the prompt is empty"),
        ({"prompt": torch.zeros(0, dtype=torch.long)}, "the prompt is empty"),
        ({"prompt": torch.zeros(2, 2, dtype=torch.long)}, "one prompt"),
        ({"prompt": [0.5]}, "one prompt"),
        ({"prompt": [1] * 15}, "shorten the prompt"),
        ({"prompt": [7]}, "another tokenizer"),
        ({"prompt": "text"}, "no tokenizer"),
        ({"top_k": 0}, "`top_k` is 0"),
        ({"num_candidates": 0}, "`num_candidates` is 0"),
        ({"max_candidates": 50}, "without `target_ess`"),
        ({"target_ess": 5, "max_candidates": 9}, "`max_candidates` is 9"),
        ({"target_ess": 500}, "`target_ess` is 500"),
    ],
)
def test_generate_refuses_with_a_remedy(gpt, options, message):
    with pytest.raises(LexergyError, match=message):
        gpt.generate(**{"prompt": [3], "num_candidates": 10, "max_new_tokens": 2, **options})


@pytest.mark.parametrize("value", [math.nan, -math.inf])
def test_an_energy_without_numbers_is_refused(value):
    broken = ResidualEBM(EnumerableLM(), lambda tokens: torch.full((len(tokens),), value))
    with pytest.raises(LexergyError, match="NaN or -inf"):
        broken.generate([3], num_candidates=4, max_new_tokens=2)


def test_impossible_text_is_never_chosen():
    lm = EnumerableLM()
    joint = ResidualEBM(lm, lambda tokens: torch.where(tokens[:, 1] == 1, 0.0, math.inf))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnreliableWeightsWarning)
        assert int(joint.generate([1], num_candidates=30, max_new_tokens=2).tokens[0]) == 1
    with pytest.raises(LexergyError, match="nothing to resample"):
        ResidualEBM(lm, lambda tokens: torch.full((len(tokens),), math.inf)).generate([1], 4, 2)


# -- energies that read the LM's states ----------------------------------------------------------------------


class StatesReader:
    """Reads the handed-on states; `as_function` computes the same from tokens, split after the second."""

    features = StateFeatures((1, 2))

    def __init__(self, lm: EnumerableLM) -> None:
        self.lm = lm
        size = self.features.size(lm.hidden_size)
        self.head = torch.randn(size, generator=torch.Generator().manual_seed(0)) / 8

    def score(self, prefix: Tensor, continuations: Tensor, features: Tensor | None = None) -> Tensor:
        assert features is not None
        assert features.shape[:2] == continuations.shape[:2]
        return features @ self.head

    def as_function(self, tokens: Tensor) -> Tensor:
        return self.lm.state_features(tokens, prefix_length=2, features=self.features) @ self.head


def test_states_are_those_of_the_whole_continuation():
    lm = EnumerableLM()
    reader = StatesReader(lm)
    by_states, by_tokens = ResidualEBM(lm, reader), ResidualEBM(lm, reader.as_function)
    windows = torch.cat([torch.tensor([[2], [4], [6]]), WINDOWS], dim=1)  # prefix 2, continuation 3
    options = {"num_samples": 40, "seed": 2}
    close = {"atol": 1e-4, "rtol": 1e-4}
    steps, reference = (joint.step_probabilities(windows, 2, **options) for joint in (by_states, by_tokens))
    torch.testing.assert_close(steps.lower, reference.lower, **close)
    torch.testing.assert_close(steps.last_exact, reference.last_exact, **close)
    estimate, other = (joint.perplexity(windows, 2, **options) for joint in (by_states, by_tokens))
    assert estimate.upper == pytest.approx(other.upper, rel=1e-4)
    assert estimate.upper != pytest.approx(estimate.base, rel=1e-2)
    out, expected = (joint.generate([2, 1], 20, 3) for joint in (by_states, by_tokens))
    torch.testing.assert_close(out.log_weights, expected.log_weights, **close)
    table, other_table = (joint.next_token([2, 1], num_samples=20, horizon=3) for joint in (by_states, by_tokens))
    assert [e.joint for e in table.entries] == pytest.approx([e.joint for e in other_table.entries], rel=1e-3)


def test_dropout_is_off():
    energy = torch.nn.Sequential(
        torch.nn.Embedding(7, 4), torch.nn.Dropout(0.5), torch.nn.Flatten(), torch.nn.Linear(12, 1)
    )

    class Module(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = energy

        def forward(self, tokens):
            return self.layers(tokens).squeeze(-1)

    joint = ResidualEBM(EnumerableLM(), Module().train())
    continuations = all_sequences(7, 2)[None]
    assert torch.equal(joint.score(PREFIXES[:1], continuations), joint.score(PREFIXES[:1], continuations))


@pytest.mark.parametrize("architecture", ["gpt2", "llama"])
@pytest.mark.parametrize("layers", [(1, 2), ()])  # hidden states and statistics; statistics alone
def test_given_tokens_are_pooled_with_what_is_drawn(architecture, layers):
    """Every feature, the lowest log-probability and deviations too, is that of the whole continuation."""
    lm, features = EnumerableLM(architecture=architecture, forbidden_tokens=(4,)), StateFeatures(layers)
    prefix = torch.tensor([[1, 3, 2, 5, 0], [6, 0, 0, 1, 3]])
    close = {"atol": 1e-4, "rtol": 1e-4}
    for given in (0, 1, 3):
        options = {"num_samples": 6, "max_new_tokens": 3, "seed": 1, "features": features, "given_length": given}
        samples = lm.sample(prefix, **options)
        rows = torch.cat([prefix[:, None].expand(-1, 6, -1), samples.tokens], -1).flatten(0, 1)
        expected = lm.state_features(rows, prefix_length=5 - given, features=features)
        torch.testing.assert_close(samples.features.flatten(0, 1), expected, **close)
        parts = lm.sample_chunks(prefix, **options, chunk_size=4, rows_per_batch=3)
        torch.testing.assert_close(torch.cat([part.features for part in parts], 1), samples.features, **close)
        tokens = torch.tensor([0, 6, 2])
        rows = torch.cat([prefix[:, None].expand(-1, 3, -1), tokens[None, :, None].expand(2, -1, -1)], -1)
        expected = lm.state_features(rows.flatten(0, 1), prefix_length=5 - given, features=features)
        found = lm.next_token_features(prefix, tokens, given_length=given, features=features)
        torch.testing.assert_close(found.flatten(0, 1), expected, **close)


def test_given_tokens_of_samples_that_end():
    lm, features = EnumerableLM(), StateFeatures((2,))
    prefix = torch.tensor([[1, 3, 2]])
    samples = lm.sample(prefix, num_samples=40, max_new_tokens=4, stop_token=1, features=features, given_length=2)
    assert samples.lengths.min() < samples.lengths.max()
    for tokens, length, found in zip(samples.tokens[0], samples.lengths[0], samples.features[0], strict=True):
        row = torch.cat([prefix[0], tokens[:length]])[None]
        expected = lm.state_features(row, prefix_length=1, features=features)[0]
        torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)


def test_what_is_remembered_of_given_tokens_is_forgotten_with_the_weights():
    lm, features = EnumerableLM(), StateFeatures((1,))
    prefix, tokens = torch.tensor([[1, 3, 2]]), torch.tensor([5])
    first = lm.next_token_features(prefix, tokens, given_length=2, features=features)
    with torch.no_grad():
        for weight in lm.model.parameters():
            weight.mul_(1.1)
    second = lm.next_token_features(prefix, tokens, given_length=2, features=features)
    expected = lm.state_features(torch.tensor([[1, 3, 2, 5]]), prefix_length=1, features=features)
    torch.testing.assert_close(second[0], expected, atol=1e-4, rtol=1e-4)
    assert (first - second).abs().max() > 1e-2
    with pytest.raises(LexergyError, match="`prefix_length` is 0"):
        lm.next_token_features(prefix, tokens, given_length=3, features=features)


def test_given_tokens_are_run_once_for_all_samples():
    lm = EnumerableLM()
    joint = ResidualEBM(lm, StatesReader(lm))
    prefix, given = torch.tensor([[2, 1]]), torch.tensor([[3, 0, 6, 1, 5, 2, 4, 4]])
    lm.log_prob(WINDOWS, prefix_length=1)  # whether the model can share prefixes is tried once
    fed: list[int] = []
    embeddings = lm.model.get_input_embeddings()
    embeddings.register_forward_hook(lambda module, inputs, output: fed.append(inputs[0].numel()))
    joint.log_weights(prefix, length=10, num_samples=60, given=given, rows_per_batch=20)
    assert sum(fed) == 2 + 8 + 10 + 60 * 2  # the prefix, the given after it, both to be continued, what is drawn
    fed.clear()
    joint.score_next(prefix, given, torch.arange(7))
    assert sum(fed) == 7  # one step of each candidate; the rest is remembered
