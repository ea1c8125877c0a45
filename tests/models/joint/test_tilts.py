"""Particles drawn by a tilt of the LM, against exact enumeration."""

import pytest
import torch
from torch import Tensor

from lexergy.core.enumeration import all_sequences, sequence_numbers
from lexergy.core.estimation import importance
from lexergy.core.estimation.proposals import TokenTilt
from lexergy.core.estimation.smc import Resampling, Twist
from lexergy.core.random import stream_of, uniforms
from lexergy.errors import LexergyError
from lexergy.models.joint.model import ResidualEBM
from lexergy.models.joint.smc import run_populations
from lexergy.models.joint.tilts import ECHO, TokensSeen, fit_tilt
from lexergy.testing import TableEnergy, chi_square_p_value, exact_log_prob, joint_log_prob, log_partition
from models.joint.test_smc import LENGTH, PREFIX, TEXTS, VOCAB, as_function, runs_of, states_joint

TILT = TokenTilt(torch.tensor([0.5, -0.3, 0.2, 0.0]), torch.tensor([0.1, 0.02, 0.05]), torch.linspace(0.6, 1.2, LENGTH))
TWIST = Twist(torch.tensor([0.3, 0.5, 0.8, 1.0]), torch.tensor([0.6, 0.4, 0.2, 0.0]))
TILTED = Resampling(every=1, below=0.9, twist=TWIST, tilt=TILT)


@pytest.fixture(scope="module", params=[None, 2], ids=["whole", "ending"])
def joint(request) -> ResidualEBM:
    return states_joint("moments", request.param)


@pytest.mark.parametrize("below", [0.0, 0.9])
def test_z_is_unbiased_by_tilted_draws(joint, below):
    """8,000 runs of three particles; a right estimate is four standard errors away with probability 6e-5."""
    exact = log_partition(joint.lm, as_function(joint), PREFIX, LENGTH).exp()
    population = run_populations(
        joint,
        PREFIX[None],
        num_particles=3,
        num_runs=8000,
        length=LENGTH,
        seed=1,
        resampling=Resampling(1, below, TWIST, TILT),
        rows_per_batch=24_000,
    )
    estimates = population.log_z_estimate[0].exp()
    error = estimates.std() / len(estimates) ** 0.5
    assert error < 0.04 * exact
    assert abs(estimates.mean() - exact) < 4 * error


def drawn(joint: ResidualEBM, many: int, num_particles: int) -> Tensor:  # -> (N,)
    runs = runs_of(joint, many, num_particles, resampling=TILTED)
    streams = [stream_of(seed, 0) for seed in range(many)]
    chosen = importance.resample(runs.log_weights, uniforms(0, streams, LENGTH, 0, 1)).squeeze(-1)
    return sequence_numbers(runs.samples.tokens[torch.arange(many), chosen], VOCAB)


def test_what_is_drawn_follows_the_exact_joint(joint):
    """Chi-square; a right sampler fails with probability 1e-4, up to what 48 particles leave of a bias."""
    exact = joint_log_prob(joint.lm, as_function(joint), PREFIX, LENGTH).exp()
    counts = drawn(joint, 400, 48).bincount(minlength=len(exact))
    assert chi_square_p_value(counts, exact) > 1e-4


def test_texts_know_their_probability_by_the_lm(joint):
    runs = runs_of(joint, 20, 8, resampling=TILTED)
    numbers = sequence_numbers(runs.samples.tokens, VOCAB)
    expected = exact_log_prob(joint.lm, PREFIX, LENGTH)[numbers]
    torch.testing.assert_close(runs.samples.log_prob, expected, atol=1e-4, rtol=1e-4)
    assert float(runs.samples.log_ratio.abs().mean()) > 0.1


def test_a_kept_text_has_the_tilt_s_probability_too(joint):
    free = runs_of(joint, 5, 60, resampling=Resampling(below=0.0, tilt=TILT)).samples
    kept = free.tokens[:, 7]  # (N, C)
    own = runs_of(joint, 5, 3, kept=kept, resampling=TILTED).samples
    torch.testing.assert_close(own.log_ratio[:, 0], free.log_ratio[:, 7], atol=1e-5, rtol=1e-5)


def test_the_density_is_that_of_conditional_runs(joint):
    """q(x) = E[P_LM(x) exp(-E(x)) / Z^] over runs that keep x."""
    many, particles = 1500, 3
    free = runs_of(joint, many, particles, resampling=TILTED)
    shares, numbers = free.log_weights.softmax(-1), sequence_numbers(free.samples.tokens, VOCAB)  # (N, K)
    base = exact_log_prob(joint.lm, PREFIX, LENGTH)
    log_score = base - as_function(joint)(TEXTS)
    for text in base.argsort(descending=True)[[0, 3]].tolist():
        kept = all_sequences(VOCAB, LENGTH)[text].expand(many, -1)
        runs = runs_of(joint, many, particles, kept=kept, first_run=1, resampling=TILTED)
        assert torch.equal(runs.samples.tokens[:, 0], kept)
        ratio = (log_score[text] - runs.log_z.squeeze(1)).exp()
        chosen = (shares * (numbers == text)).sum(-1)
        error = ((chosen.var() + ratio.var()) / many).sqrt()
        assert error < 0.3 * chosen.mean()
        assert abs(ratio.mean() - chosen.mean()) < 4 * error


def test_a_fitted_tilt_takes_noise_away():
    joint = states_joint("moments")
    settings = {"length": LENGTH, "num_samples": 200, "seed": 9}
    tilt, explained = fit_tilt(joint, PREFIX[None], prefix_ids=[0], **settings)
    assert explained > 0.2
    torch.testing.assert_close(tilt.strength, torch.full((LENGTH,), 1 / LENGTH, dtype=torch.double))
    assert torch.equal(joint.fit_tilt(PREFIX[None], **settings).of_token, tilt.of_token)
    twist = joint.fit_twist(PREFIX[None], **settings | {"seed": 10}, tilt=tilt)
    options = {"num_particles": 8, "num_runs": 300, "length": LENGTH, "seed": 0, "rows_per_batch": 2400}
    plain, tilted = (
        run_populations(joint, PREFIX[None], resampling=own, **options).log_z_estimate
        for own in (Resampling(1, 0.9), Resampling(1, 0.9, twist, tilt))
    )
    assert tilted.var() < 0.8 * plain.var()


def test_a_token_is_charged_with_what_follows_it():
    """The energy so far is known after every token; a tilt's target is its growth over the next ones."""
    seen = TokensSeen(states_joint("moments"), PREFIX[None], 1, torch.zeros(VOCAB, 1))
    seen.sums = [torch.tensor([float(length**2)]) for length in range(ECHO + 3)]
    expected = [(place + ECHO) ** 2 - place**2 for place in range(3)]
    expected += [(ECHO + 2) ** 2 - place**2 for place in range(3, ECHO + 2)]
    assert [float(added) for added in seen.added()] == expected


def test_a_truncated_distribution_is_refused():
    with pytest.raises(LexergyError, match="`top_k` is given and tokens are drawn by a tilt"):
        runs_of(states_joint(), 1, 4, resampling=TILTED, top_k=3)


def test_a_tilt_for_texts_of_another_length_is_refused():
    for short in (2, LENGTH + 1):
        tilt = TILT._replace(strength=torch.ones(short))
        with pytest.raises(LexergyError, match=f"the tilt is for texts of {short} tokens, and they have {LENGTH}"):
            runs_of(states_joint(), 1, 4, resampling=Resampling(tilt=tilt))


def test_what_no_tilt_can_be_fitted_to_is_refused():
    joint = states_joint()
    with pytest.raises(LexergyError, match="nothing is known of a text before its end"):
        ResidualEBM(joint.lm, TableEnergy(VOCAB, 6)).fit_tilt(PREFIX[None], length=LENGTH)
    with pytest.raises(LexergyError, match="`length` is 1; expected at least 2"):
        joint.fit_tilt(PREFIX[None], length=1)
