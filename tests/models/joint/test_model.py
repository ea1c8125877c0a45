"""The joint model against exact enumeration: log Z and perplexity."""

import math
import weakref
from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from lexergy.core.estimation.perplexity import perplexity_from_weights
from lexergy.errors import LexergyError
from lexergy.models.joint.model import ResidualEBM
from lexergy.testing import EnumerableLM, TableEnergy, exact_log_prob, joint_log_prob, log_partition
from toys.joint import MANY_ROWS, PREFIXES, WINDOWS, exact_window_log_prob, index, random_energy, table


@pytest.fixture(scope="module", params=["gpt2", "llama"])
def joint(request) -> ResidualEBM:
    return ResidualEBM(EnumerableLM(architecture=request.param), TableEnergy())


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
        document_ids: list[str]

    rows = joint.perplexity(WINDOWS, prefix_length=1, num_samples=30)
    windows = joint.perplexity(Windows(WINDOWS, 1, ["a", "a", "b"]), num_samples=30)
    assert (windows.bound, windows.lower, windows.upper, windows.base) == (
        rows.bound,
        rows.lower,
        rows.upper,
        rows.base,
    )
    assert (rows.num_documents, windows.num_documents) == (3, 2)
    assert windows.std_error != rows.std_error
    with pytest.raises(LexergyError, match="prefix_length"):
        joint.perplexity(WINDOWS)
    with pytest.raises(LexergyError, match="leave it out"):
        joint.perplexity(Windows(WINDOWS, 1, ["a", "a", "b"]), prefix_length=2)
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
    # Two candidates: the text itself, and the first sample.
    first, second = 1 - math.log((math.e + 1) / 2), -0.5 - math.log((math.exp(-0.5) + 2) / 2)
    assert estimate.bound == pytest.approx(math.exp((14 - first - second) / 4))
    assert estimate.gain == pytest.approx(math.log(estimate.base / estimate.bound))
    assert estimate.ess == pytest.approx((16 / 10 + 2) / 2)
    assert math.isnan(estimate.pareto_k)
    assert (estimate.num_windows, estimate.num_samples, estimate.continuation_length) == (2, 2, 2)
    # Two windows a, b: a resample's mean is a, (a + b) / 2 or b, so its deviation is |a - b| / sqrt(8).
    assert estimate.gain_std_error == pytest.approx(abs(first - second) / 2 / math.sqrt(8), rel=0.08)
    with pytest.raises(LexergyError, match=r"\(B,\), \(B,\) and \(B, n\)"):
        perplexity_from_weights(base_log_prob, energy[:1], log_weights, 2)


def test_the_bound_is_that_of_what_is_drawn_from_as_many_candidates(joint):
    """The exact density of Algorithm 1 with two candidates, q(x) = 2 P_LM(x) sum_y P_LM(y) w(x) / (w(x) + w(y))."""
    window = WINDOWS[:1]
    lm = exact_log_prob(joint.lm, window[0, :1], 3).exp()  # (V^3,)
    weights = joint_log_prob(joint.lm, table(joint), window[0, :1], 3).exp() / lm  # (V^3,) over Z, which cancels
    own = index(window[0, 1:])
    density = 2 * lm[own] * (lm * weights[own] / (weights[own] + weights)).sum()
    bound = lm[own].log() + (lm * (weights[own] / ((weights[own] + weights) / 2)).log()).sum()
    estimate = joint.perplexity(window.repeat(3000, 1), 1, num_samples=2, rows_per_batch=MANY_ROWS)
    log_prob = -3 * math.log(estimate.bound)
    assert log_prob == pytest.approx(float(bound), abs=4 * 3 * estimate.gain_std_error)
    assert log_prob < float(density.log())


def test_standard_error_covers_the_spread_between_sets_of_windows():
    generator = torch.Generator().manual_seed(0)
    base_log_prob = torch.randn(200, 50, generator=generator) * 4 - 30
    log_weights = torch.zeros(50, 2)
    estimates = [perplexity_from_weights(row, torch.zeros(50), log_weights, 10) for row in base_log_prob]
    spread = torch.tensor([estimate.bound for estimate in estimates]).std()
    assert estimates[0].std_error == pytest.approx(float(spread), rel=0.35)
    assert sum(e.std_error for e in estimates) / 200 == pytest.approx(float(spread), rel=0.1)


def test_windows_of_one_document_count_once():
    """Eight copies of each of 50 windows tell no more than one of each."""
    base_log_prob = torch.randn(50, generator=torch.Generator().manual_seed(0)) * 4 - 30
    energy, log_weights = base_log_prob / 10, torch.zeros(50, 2)
    once = perplexity_from_weights(base_log_prob, energy, log_weights, 10)
    copied = (values.repeat_interleave(8, dim=0) for values in (base_log_prob, energy, log_weights))
    copies = perplexity_from_weights(*copied, 10, documents=[window // 8 for window in range(400)])
    assert (copies.num_windows, copies.num_documents) == (400, 50)
    assert copies.std_error == pytest.approx(once.std_error)
    assert copies.gain_std_error == pytest.approx(once.gain_std_error)


def test_curve_narrows_to_the_estimate(joint):
    curve = joint.perplexity(WINDOWS.repeat(20, 1), 1, num_samples=64).curve
    assert [point.num_samples for point in curve] == [4, 8, 16, 32, 64]
    gaps = [point.upper - point.lower for point in curve]
    assert gaps == sorted(gaps, reverse=True)
    assert gaps[0] > 4 * gaps[-1] > 0


def test_samples_are_let_go_as_they_are_scored():
    class WatchedLM(EnumerableLM):
        drawn: list[weakref.ref]
        sizes: list[tuple[int, int]]  # rows just drawn, and how many chunks are alive

        def sample(self, *args, **options):
            samples = super().sample(*args, **options)
            self.drawn.append(weakref.ref(samples.tokens))
            alive = sum(reference() is not None for reference in self.drawn)
            self.sizes.append((samples.tokens.shape[0] * samples.tokens.shape[1], alive))
            return samples

    peaks = []
    for num_samples in (200, 3200):
        lm = WatchedLM(num_layers=1)
        lm.drawn, lm.sizes = [], []
        ResidualEBM(lm, TableEnergy()).perplexity(WINDOWS, 1, num_samples=num_samples, rows_per_batch=64)
        assert len(lm.drawn) == 3 * math.ceil(num_samples / 64)
        peaks.append(tuple(map(max, zip(*lm.sizes, strict=True))))
    assert peaks == [(64, 2), (64, 2)]  # the chunk just drawn, and the one before it until the name moves on


def test_heavy_tails_are_reported():
    cliff = ResidualEBM(EnumerableLM(), random_energy(-40.0, 8))
    estimate = cliff.perplexity(WINDOWS, 1, num_samples=200)
    assert estimate.pareto_k > estimate.pareto_k_threshold
    assert estimate.pareto_k_above > 0.5
    assert "is above" in estimate.doubt
    gentle = ResidualEBM(EnumerableLM(), random_energy(1.0, 1))
    assert gentle.perplexity(WINDOWS, 1, num_samples=200).doubt is None


def test_a_perplexity_that_rounds_to_nothing_is_doubted():
    """An energy of absurd size on people's text alone, as damaged weights give it."""
    weights = torch.rand(2, 200, generator=torch.Generator().manual_seed(0), dtype=torch.double)
    estimate = perplexity_from_weights(torch.full((2,), -5.0), torch.full((2,), -1e5), weights, continuation_length=2)
    assert estimate.upper == 0
    assert "can tell no more than" in estimate.doubt
