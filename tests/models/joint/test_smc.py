"""Sequential Monte Carlo on the joint model, against exact enumeration."""

import copy

import pytest
import torch
from torch import Tensor

from lexergy.core.enumeration import all_sequences, sequence_numbers
from lexergy.core.estimation import importance, partition
from lexergy.core.estimation.smc import Resampling, fit_twist
from lexergy.core.random import stream_of, uniforms
from lexergy.errors import LexergyError
from lexergy.models.energies import StatesEnergy
from lexergy.models.joint.model import ResidualEBM
from lexergy.models.joint.smc import particle_runs, run_populations
from lexergy.testing import EnumerableLM, TableEnergy, chi_square_p_value, exact_log_prob, joint_log_prob, log_partition

PREFIX, LENGTH, VOCAB = torch.tensor([3, 1]), 4, 4
TEXTS = torch.cat([PREFIX.expand(VOCAB**LENGTH, -1), all_sequences(VOCAB, LENGTH)], 1)
OFTEN = Resampling(every=1, below=0.9)


def states_joint(statistics: str = "moments", end_token: int | None = None) -> ResidualEBM:
    """An energy on states, of mean 0 and deviation 1.2 over the LM's texts: no text weighs very much."""
    lm = EnumerableLM(VOCAB, num_layers=1, sharpness=4.0)
    lm = lm if end_token is None else lm.ending(end_token)
    energy = StatesEnergy.for_lm(lm, (0, 1), statistics=statistics)
    torch.nn.init.normal_(energy.head[-1].weight, generator=torch.Generator().manual_seed(3))
    joint, share = ResidualEBM(lm, energy), exact_log_prob(lm, PREFIX, LENGTH).exp()
    scores = as_function(joint)(TEXTS)
    mean = (share * scores).sum()
    factor = 1.2 / (share * (scores - mean) ** 2).sum().sqrt()
    with torch.no_grad():
        energy.head[-1].weight.mul_(factor)
        energy.head[-1].bias.sub_(factor * mean)
    return joint


def as_function(joint: ResidualEBM):
    def energy(tokens: Tensor) -> Tensor:  # (N, L) -> (N,)
        return joint.score(tokens[:, :2], tokens[:, None, 2:]).squeeze(1).double()

    return energy


@pytest.fixture(scope="module", params=[("moments", None), ("summary", None), ("moments", 2)], ids=str)
def joint(request) -> ResidualEBM:
    return states_joint(*request.param)


@pytest.fixture(scope="module")
def additive() -> ResidualEBM:
    return states_joint()


def runs_of(joint: ResidualEBM, many: int, num_particles: int, **options):
    """As many runs as seeds, each as `generate(seed=...)` has it, in one batch."""
    settings = {"length": LENGTH, "seed": 0, "resampling": OFTEN, "num_runs": 1} | options
    streams = [stream_of(seed, 0) for seed in range(many)]
    return particle_runs(joint, PREFIX.expand(many, -1), num_particles=num_particles, prefix_ids=streams, **settings)


def drawn_from(joint: ResidualEBM, many: int, num_particles: int, **options) -> Tensor:  # -> (V ** C,)
    runs = runs_of(joint, many, num_particles, **options)
    streams = [stream_of(seed, 0) for seed in range(many)]
    chosen = importance.resample(runs.log_weights, uniforms(0, streams, LENGTH, 0, 1)).squeeze(-1)
    return sequence_numbers(runs.samples.tokens[torch.arange(many), chosen], VOCAB)


def test_z_is_unbiased(joint):
    """8,000 runs of three particles; a right estimate is four standard errors away with probability 6e-5."""
    exact = log_partition(joint.lm, as_function(joint), PREFIX, LENGTH).exp()
    population = run_populations(
        joint,
        PREFIX[None],
        num_particles=3,
        num_runs=8000,
        length=LENGTH,
        seed=1,
        resampling=OFTEN,
        rows_per_batch=24_000,
    )
    estimates = population.log_z_estimate[0].exp()
    error = estimates.std() / len(estimates) ** 0.5
    assert error < 0.04 * exact
    assert abs(estimates.mean() - exact) < 4 * error
    assert population.num_resamplings.double().mean() > 0.5
    assert population.num_ancestors.double().mean() < 2.9


@pytest.mark.parametrize("truncation", [{}, {"top_k": 3}])
def test_what_is_drawn_follows_the_exact_joint(joint, truncation):
    """Chi-square; a right sampler fails with probability 1e-4, up to what 32 particles leave of a bias."""
    exact = joint_log_prob(joint.lm, as_function(joint), PREFIX, LENGTH, **truncation).exp()
    counts = drawn_from(joint, 400, 32, **truncation).bincount(minlength=len(exact))
    assert chi_square_p_value(counts, exact) > 1e-4
    base = exact_log_prob(joint.lm, PREFIX, LENGTH, **truncation).exp()
    assert chi_square_p_value(counts, base) < 1e-9
    wrong_sign = joint_log_prob(joint.lm, lambda x: -as_function(joint)(x), PREFIX, LENGTH, **truncation).exp()
    assert chi_square_p_value(counts, wrong_sign) < 1e-9


def test_generate_draws_that(joint):
    expected = drawn_from(joint, 3, 16)
    for seed in range(3):
        out = joint.generate(PREFIX, 16, LENGTH, seed=seed, method="smc", resampling=OFTEN)
        padded = torch.full((LENGTH,), joint.lm.end_token or 0)
        padded[: len(out.tokens)] = out.tokens
        assert int(sequence_numbers(padded, VOCAB)) == expected[seed]
        base = joint.generate(PREFIX, 16, LENGTH, seed=seed).base
        assert (out.base.tokens, out.base.energy) == (base.tokens, pytest.approx(base.energy, abs=1e-5))
        assert out.candidates[out.chosen].tokens == tuple(out.tokens.tolist())
        assert 1 <= out.num_ancestors <= 16
        for candidate, log_weight in zip(out.candidates, out.log_weights, strict=True):
            whole = torch.tensor([[*PREFIX.tolist(), *candidate.tokens]])
            assert candidate.energy == pytest.approx(float(as_function(joint)(whole)), abs=1e-4)
            assert candidate.weight == pytest.approx(float((log_weight - out.log_weights.logsumexp(0)).exp()))


def test_the_density_is_that_of_conditional_runs(joint):
    """q(x) = E[P_LM(x) exp(-E(x)) / Z^] over runs that keep x, and the mean logarithm is below log q(x)."""
    many, particles = 1500, 3
    free = runs_of(joint, many, particles)
    shares = free.log_weights.softmax(-1)  # (N, K)
    numbers = sequence_numbers(free.samples.tokens, VOCAB)  # (N, K)
    base = exact_log_prob(joint.lm, PREFIX, LENGTH)
    log_score = base - as_function(joint)(TEXTS)
    for text in base.argsort(descending=True)[[0, 3]].tolist():
        kept = all_sequences(VOCAB, LENGTH)[text].expand(many, -1)
        runs = runs_of(joint, many, particles, kept=kept, first_run=1)
        assert torch.equal(runs.samples.tokens[:, 0], kept)
        log_ratio = log_score[text] - runs.log_z.squeeze(1)
        drawn = (shares * (numbers == text)).sum(-1)
        error = ((drawn.var() + log_ratio.exp().var()) / many).sqrt()
        assert error < 0.3 * drawn.mean()
        assert abs(log_ratio.exp().mean() - drawn.mean()) < 4 * error
        assert log_ratio.mean() < log_ratio.exp().mean().log()


def test_without_resampling_it_is_importance_sampling(additive):
    settings = {"length": LENGTH, "num_samples": 5, "seed": 3}
    never = additive.log_z(PREFIX[None], **settings, method="smc", num_runs=4, resampling=Resampling(below=0.0))
    weights = additive.log_weights(PREFIX[None], **settings | {"num_samples": 20})
    expected = partition.lower_bound(weights.view(1, 4, 5))
    torch.testing.assert_close(never.particles.log_z, expected, atol=1e-5, rtol=1e-5)
    assert float(never.lower) == pytest.approx(float(partition.lower_bound(expected)), abs=1e-5)
    assert float(never.upper) == pytest.approx(float(partition.upper_bound(expected)), abs=1e-5)
    assert never.particles.num_ancestors.tolist() == [[5] * 4]


def test_batches_and_further_runs_change_nothing(joint):
    prefixes = torch.tensor([[3, 1], [0, 2], [1, 1]])
    settings = {"length": LENGTH, "num_samples": 4, "seed": 2, "method": "smc", "resampling": OFTEN}
    whole = joint.log_z(prefixes, **settings, num_runs=5).particles
    parts = joint.log_z(prefixes, **settings, num_runs=5, rows_per_batch=8).particles
    torch.testing.assert_close(parts.log_z, whole.log_z, atol=1e-5, rtol=0)
    assert torch.equal(parts.num_ancestors, whole.num_ancestors)
    fewer = joint.log_z(prefixes[1:], **settings, num_runs=2, prefix_ids=[1, 2]).particles
    torch.testing.assert_close(fewer.log_z, whole.log_z[1:, :2], atol=1e-5, rtol=0)


def test_a_constant_added_to_the_energy_changes_nothing(joint):
    """The joint model is the same, texts that have ended among the others included."""
    energy = copy.deepcopy(joint.energy)
    with torch.no_grad():
        energy.head[-1].bias.sub_(4.0)
    same, shifted = (runs_of(model, 40, 16) for model in (joint, ResidualEBM(joint.lm, energy)))
    assert torch.equal(same.samples.tokens, shifted.samples.tokens)
    torch.testing.assert_close(shifted.log_weights, same.log_weights + 4, atol=1e-4, rtol=0)
    assert same.population.num_resamplings.double().mean() > 0.5


def test_what_has_ended_stays(joint):
    """Its text and its weight, exp(-E), are those of importance sampling."""
    never, often = (runs_of(joint, 200, 8, resampling=Resampling(1, below)) for below in (0.0, 0.9))
    at_once = never.samples.lengths == 1  # (N, K)
    assert bool(at_once.any()) == (joint.lm.end_token is not None)
    assert torch.equal(often.samples.lengths[at_once], never.samples.lengths[at_once])
    torch.testing.assert_close(often.log_weights[at_once], never.log_weights[at_once], atol=1e-5, rtol=1e-5)


def test_resampling_takes_noise_away():
    settings = {"num_particles": 8, "num_runs": 300, "length": LENGTH, "seed": 0, "rows_per_batch": 2400}
    never, often = (
        run_populations(states_joint("summary"), PREFIX[None], resampling=Resampling(every=1, below=below), **settings)
        for below in (0.0, 0.9)
    )
    assert often.log_z_estimate.var() < 0.8 * never.log_z_estimate.var()


def test_perplexity_is_bounded_by_the_conditional_run(joint):
    windows = torch.tensor([[3, 1, 0, 1, 3, 2], [3, 1, 3, 2, 2, 2]])
    settings = {"num_samples": 4, "seed": 5, "method": "smc", "resampling": OFTEN}
    estimate = joint.perplexity(windows, 2, **settings, num_runs=8)
    prefix, kept = windows[:, :2], windows[:, 2:]
    options = {"num_particles": 4, "length": LENGTH, "seed": 5, "resampling": OFTEN}
    own = run_populations(joint, prefix, num_runs=1, first_run=8, kept=kept, **options).log_z_estimate[:, 0]
    rest = run_populations(joint, prefix, num_runs=7, **options).log_z_estimate
    gain = -as_function(joint)(windows) - partition.sampler_log_z(own, rest)
    torch.testing.assert_close(estimate.windows.gain, gain, atol=1e-4, rtol=1e-4)
    assert (estimate.num_samples, estimate.num_particles) == (8, 4)
    assert "too few" in estimate.doubt


def test_a_twist_is_fitted_to_partial_energies(joint):
    twist = joint.fit_twist(PREFIX[None], length=LENGTH, num_samples=50, seed=4)
    samples = joint.lm.sample(PREFIX[None], num_samples=50, max_new_tokens=LENGTH, seed=4)
    rows = torch.cat([PREFIX.expand(50, -1), samples.tokens[0]], 1)
    partial = [
        joint.energy.of_features(
            joint.lm.state_features(
                rows, prefix_length=2, features=joint.energy.features, lengths=samples.lengths[0].clamp(max=length)
            )
        )
        for length in range(1, LENGTH + 1)
    ]
    alive = samples.lengths[0][:, None] > torch.arange(1, LENGTH + 1)
    if joint.lm.end_token is None:
        alive[:, :-1] = True
    expected = fit_twist(torch.stack(partial, -1)[None].detach(), partial[-1][None].detach(), alive[None])
    torch.testing.assert_close(twist.slope[:-1], expected.slope[:-1], atol=1e-3, rtol=1e-3)
    found = joint.log_z(
        PREFIX[None], length=LENGTH, num_samples=4, method="smc", num_runs=400, resampling=Resampling(1, 0.9, twist)
    )
    exact = float(log_partition(joint.lm, as_function(joint), PREFIX, LENGTH))
    assert abs(float(found.lower) - exact) < 0.25


def test_what_smc_cannot_do_is_refused(additive):
    whole_texts = ResidualEBM(additive.lm, TableEnergy(VOCAB, 6))
    settings = {"length": LENGTH, "num_samples": 4}
    with pytest.raises(LexergyError, match="nothing is known of a text before its end"):
        whole_texts.log_z(PREFIX[None], **settings, method="smc")
    with pytest.raises(LexergyError, match="nothing is known of a text before its end"):
        whole_texts.generate(PREFIX, method="smc")
    with pytest.raises(LexergyError, match="expected one of importance, smc"):
        additive.log_z(PREFIX[None], **settings, method="mcmc")
    with pytest.raises(LexergyError, match='expected `method="smc"`'):
        additive.log_z(PREFIX[None], **settings, num_runs=4)
    with pytest.raises(LexergyError, match="1 particles; expected at least 2"):
        additive.generate(PREFIX, 1, LENGTH, method="smc")
    with pytest.raises(LexergyError, match="set `num_runs` instead"):
        additive.generate(PREFIX, 4, LENGTH, method="smc", target_ess=3)
