"""Long texts whose particles are carried on, against exact enumeration of all texts of two chunks."""

import pytest
import torch
from torch import Tensor

from lexergy.core.enumeration import all_sequences, sequence_numbers
from lexergy.core.estimation import importance
from lexergy.core.random import uniforms
from lexergy.errors import LexergyError
from lexergy.models.energies import StatesEnergy
from lexergy.models.joint.long_particles import write_particles
from lexergy.models.joint.model import ResidualEBM
from lexergy.testing import EnumerableLM, TableEnergy

VOCAB, END = 4, 2
PREFIX = torch.tensor([[3, 1]])
SETTINGS = {"num_chunks": 2, "chunk_tokens": 2, "context_tokens": 2}


@pytest.fixture(scope="module", params=[False, True], ids=["endless", "ending"])
def joint(request) -> ResidualEBM:
    lm, table = EnumerableLM(VOCAB, num_layers=1, sharpness=3.0), TableEnergy(VOCAB, length=4, scale=1.2)

    def energy(tokens: Tensor) -> Tensor:  # (B, L): shorter where the text has ended
        return table(torch.nn.functional.pad(tokens, (0, 4 - tokens.shape[1]), value=END))

    return ResidualEBM(lm.ending(END) if request.param else lm, energy)


def exact_log_score(joint: ResidualEBM) -> Tensor:  # (256,)
    """log P_LM(x) - E(chunk_1 | prefix) - E(chunk_2 | chunk_1) of all texts, each chunk read after two tokens.

    A text that ends has one number: that with its end token as padding.
    """
    texts = all_sequences(VOCAB, 4)  # (256, 4)
    first, second = texts[:, :2], texts[:, 2:]
    score = torch.zeros(len(texts), dtype=torch.double)
    for before, chunk in ((PREFIX.expand(len(texts), -1), first), (first, second)):
        score += joint.lm.log_prob(torch.cat([before, chunk], 1), prefix_length=2).double()
        score -= joint.score(before, chunk[:, None])[:, 0].double()
    if joint.lm.end_token is None:
        return score
    ended = (first == END).any(1)
    alone = joint.lm.log_prob(torch.cat([PREFIX.expand(len(texts), -1), first], 1), prefix_length=2).double()
    alone -= joint.score(PREFIX.expand(len(texts), -1), first[:, None])[:, 0].double()
    padded = (second == END).all(1) & ((first[:, 0] != END) | (first[:, 1] == END))
    score = torch.where(ended, torch.where(padded, alone, -torch.inf), score)
    twice = (second[:, 0] == END) & (second[:, 1] != END)
    return torch.where(twice, -torch.inf, score)


def test_texts_of_the_oracle_have_probability_one(joint):
    plain = ResidualEBM(joint.lm, lambda tokens: torch.zeros(len(tokens)))
    assert float(exact_log_score(plain).logsumexp(0)) == pytest.approx(0, abs=1e-5)


def test_what_each_text_has_of_z_is_unbiased(joint):
    """E[1/K sum_k w_k 1(x_k = x)] = P_LM(x) exp(-sum_j E_j), of all texts with one first token; 4.5 standard errors."""
    num_runs, num_particles = 250, 24
    parts, often = [], 0
    for seed in range(num_runs):
        found = write_particles(joint, PREFIX, num_candidates=num_particles, seed=seed, below=0.9, **SETTINGS)
        weights = found.population.log_weights.exp() / num_particles
        numbers = sequence_numbers(found.tokens, VOCAB)
        parts.append(torch.zeros(VOCAB**4, dtype=torch.double).scatter_add_(0, numbers, weights))
        often += int(found.population.num_resamplings)
    assert often > 0.4 * num_runs
    exact, estimates = exact_log_score(joint).exp(), torch.stack(parts)  # (256,), (N, 256)
    assert bool((estimates[:, exact == 0] == 0).all())
    for groups in ((VOCAB, -1), (1, -1)):  # by the first token, and Z itself
        expected = exact.view(groups).sum(1)
        own = estimates.view(num_runs, *groups).sum(2)  # (N, g)
        error = own.std(0) / num_runs**0.5
        assert bool(((own.mean(0) - expected).abs() <= 4.5 * error).all())
        assert bool((error < 0.3 * expected).all())
    last = (estimates.view(num_runs, -1, VOCAB).sum(1), exact.view(-1, VOCAB).sum(0))  # by the last token
    assert bool(((last[0].mean(0) - last[1]).abs() <= 4.5 * last[0].std(0) / num_runs**0.5).all())


def test_particles_tell_their_own_numbers(joint):
    found = write_particles(joint, PREFIX, num_candidates=16, seed=1, below=1.0, **SETTINGS)
    ended = found.lengths <= 2
    assert bool(ended.any()) == (joint.lm.end_token is not None)
    first, second = found.tokens[:, :2], found.tokens[:, 2:]
    torch.testing.assert_close(found.energy[:, 0], joint.score(PREFIX, first[None])[0].double())
    later = joint.score(first, second[:, None])[:, 0].double()
    torch.testing.assert_close(found.energy[:, 1], torch.where(ended, 0.0, later))
    torch.testing.assert_close(
        found.population.log_weights, found.population.log_carried - found.energy.sum(1), atol=1e-12, rtol=0
    )


def test_one_of_them_is_the_long_text(joint):
    settings = {"num_candidates": 12, "seed": 4, **SETTINGS}
    found, out = write_particles(joint, PREFIX, **settings), joint.generate_long(PREFIX, method="smc", **settings)
    place = int(importance.resample(found.population.log_weights, uniforms(4, [0], 2, 0, 1)[0]))
    assert out.tokens.tolist() == found.tokens[place, : found.lengths[place]].tolist()
    energies = found.energy[place, : len(out.chunks)].tolist()
    assert [chunk.energy for chunk in out.chunks] == pytest.approx(energies)
    assert [chunk.ess for chunk in out.chunks] == pytest.approx(
        importance.effective_sample_size(found.log_weights)[: len(out.chunks)].tolist()
    )
    assert out.num_ancestors == int(found.population.num_ancestors) <= 12
    plain = joint.generate_long(PREFIX, **settings)
    assert plain.num_ancestors is None
    assert torch.equal(out.base_tokens, plain.base_tokens)


def test_an_energy_on_states_is_read_of_each_chunk():
    lm = EnumerableLM(VOCAB, num_layers=1)
    energy = StatesEnergy.for_lm(lm, (0, 1))
    torch.nn.init.normal_(energy.head[-1].weight, generator=torch.Generator().manual_seed(3))
    joint = ResidualEBM(lm, energy)
    found = write_particles(joint, PREFIX, num_candidates=6, seed=1, **SETTINGS)
    later = joint.score(found.tokens[:, :2], found.tokens[:, None, 2:])[:, 0].double()
    torch.testing.assert_close(found.energy[:, 1], later, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"num_candidates": 1}, "expected at least 2 particles"),
        ({"num_chunks": 0}, "`num_chunks` is 0"),
        ({"context_tokens": 99}, "expected 1 to"),
        ({"method": "mcmc"}, "expected one of importance, smc"),
    ],
)
def test_mistakes_are_told(joint, wrong, message):
    with pytest.raises(LexergyError, match=message):
        joint.generate_long(PREFIX, **{"num_candidates": 4, "method": "smc", **SETTINGS, **wrong})
