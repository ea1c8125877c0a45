from types import SimpleNamespace

import pytest
import torch

from lexergy.core.enumeration import all_sequences
from lexergy.core.mcmc.metropolis import mask_predict
from lexergy.core.mcmc.sweeps import Schedule
from lexergy.errors import LexergyError
from lexergy.tasks.masked import mcmc
from lexergy.tasks.masked.mcmc import Sampling, sample_masked_lm, walk_chains
from lexergy.tasks.masked.starts import ITERATIONS
from lexergy.testing import EnumerableMaskedLM, chi_square_p_value

FIRST_WORD, NUM_WORDS = 5, 6


@pytest.fixture(scope="module")
def lm():
    return EnumerableMaskedLM(max_length=16, hidden_size=8, num_layers=1)


@pytest.mark.parametrize("energy", ["local", "raw"])
def test_infilling_follows_the_energy(lm, energy):
    """Two masks, six words: all fillings are enumerated; a right sampler fails once in ten thousand."""
    template = lm.encode("the [MASK] of [MASK]")
    sampling = Sampling(Schedule(sweeps=6), chains=250, energy=energy)
    (sentence,) = sample_masked_lm(lm, [template], sampling)
    words = all_sequences(NUM_WORDS, 2) + FIRST_WORD
    whole = torch.tensor([template]).repeat(len(words), 1)
    whole[:, [2, 4]] = words
    distribution = (-lm.energy(energy)(whole)).softmax(0)
    texts = [lm.decode(row) for row in whole]
    counts = torch.zeros(len(words))
    for sample in sentence.samples:
        counts[texts.index(sample.text)] += 1
    assert chi_square_p_value(counts, distribution) > 1e-4


def test_sentences_of_different_lengths_run_together(lm):
    templates = [lm.blank(4), lm.encode("the [MASK] is strong"), lm.blank(1)]
    sampling = Sampling(Schedule(sweeps=5, block_size=2, last_block_size=1), chains=3, burn_in=1, seed=4)
    together = sample_masked_lm(lm, templates, sampling)
    (first,) = sample_masked_lm(lm, templates[:1], sampling)
    assert [sample.text for sample in together[0].samples] == [sample.text for sample in first.samples]
    torch.testing.assert_close(together[0].energies, first.energies, rtol=0, atol=1e-5)
    fewer = Sampling(sampling.schedule, chains=2, burn_in=1, seed=4)
    (part,) = sample_masked_lm(lm, templates[:1], fewer)
    assert [sample.text for sample in part.samples] == [sample.text for sample in first.samples[:2]]
    assert all(sample.text.startswith("the ") and sample.text.endswith(" is strong") for sample in together[1].samples)
    assert [len(sample.text.split()) for sample in together[2].samples] == [1, 1, 1]


@pytest.mark.parametrize("sampler", ["metropolis", "gibbs"])
def test_the_energies_told_are_those_of_the_texts(lm, sampler):
    sampling = Sampling(Schedule(sweeps=4, cooling=0.1), chains=4, sampler=sampler, start="greedy")
    (sentence,) = sample_masked_lm(lm, [lm.blank(3)], sampling)
    assert sentence.energies.shape == (4, 4)
    rows = lm.pad([lm.encode(sample.text) for sample in sentence.samples])
    torch.testing.assert_close(sentence.energies[:, -1], lm.local_energy(rows), rtol=0, atol=1e-5)
    assert [sample.energy for sample in sentence.samples] == sentence.energies[:, -1].tolist()
    assert 0 < sentence.novel < 1
    assert sentence.acceptance == (1 if sampler == "gibbs" else pytest.approx(sentence.acceptance))
    assert sentence.novel <= sentence.acceptance


@pytest.mark.parametrize("start", ["sampled", "greedy", "gibbs", "dispersed"])
def test_a_walk_begins_at_its_start(lm, start):
    sampling = Sampling(Schedule(sweeps=2), chains=6, start=start)
    first, *sweeps = walk_chains(lm, [lm.blank(4)], sampling)
    assert len(sweeps) == 2
    assert int(first.proposed.sum()) == 0
    assert (sweeps[0].proposed == 4).all()
    torch.testing.assert_close(first.state.energy, lm.local_energy(first.state.tokens), rtol=0, atol=1e-5)
    assert (len(first.state.tokens.unique(dim=0)) == 1) == (start == "greedy")


def test_dispersed_chains_begin_at_four_kinds_of_places(lm):
    """Chains 0 and 4 are greedy, 1 and 5 Mask-Predict's; the others are drawn, and no two alike."""
    template = lm.blank(6)
    first, *_ = walk_chains(lm, [template], Sampling(Schedule(sweeps=1), chains=8, start="dispersed"))
    tokens = first.state.tokens
    masked = torch.tensor([template])
    for chain, iterations in ((0, 1), (1, ITERATIONS)):
        expected = mask_predict(masked, masked == lm.mask_token, lm.conditionals, iterations)[0]
        assert torch.equal(tokens[chain], expected)
        assert torch.equal(tokens[chain + 4], expected)
    assert len(tokens[[2, 3, 6, 7]].unique(dim=0)) == 4
    assert ((tokens >= FIRST_WORD) | (masked != lm.mask_token)).all()


def test_a_sentence_walks_alike_wherever_it_stands(lm):
    """Shards of sentences, in any order, are what all sentences together would have given."""
    templates = [lm.blank(3), lm.blank(2), lm.blank(4)]
    sampling = Sampling(Schedule(sweeps=3), chains=4, start="dispersed", seed=2)
    *_, together = walk_chains(lm, templates, sampling)
    *_, apart = walk_chains(lm, [templates[2], templates[0]], sampling, numbers=[2, 0])
    assert torch.equal(apart.state.tokens, together.state.tokens[[8, 9, 10, 11, 0, 1, 2, 3]])


def test_a_start_by_gibbs_uses_other_random_numbers_than_the_walk(lm):
    """Two sweeps of Gibbs after a greedy start are not those that a walk of Gibbs sampling would make."""
    schedule = Schedule(sweeps=2)
    *_, walked = walk_chains(lm, [lm.blank(4)], Sampling(schedule, chains=6, sampler="gibbs", start="greedy"))
    started, *_ = walk_chains(lm, [lm.blank(4)], Sampling(schedule, chains=6, start="gibbs"))
    assert not torch.equal(walked.state.tokens, started.state.tokens)


def test_what_cannot_be_sampled(lm, monkeypatch):
    sampling = Sampling(Schedule(sweeps=2), chains=2)
    with pytest.raises(LexergyError, match=r"sentence 2 has no mask; .*\[MASK\]"):
        sample_masked_lm(lm, [lm.blank(2), lm.encode("the state")], sampling)
    with pytest.raises(LexergyError, match="19 tokens; the model reads at most 16"):
        sample_masked_lm(lm, [lm.blank(17)], sampling)
    with pytest.raises(LexergyError, match="`burn_in` is 2 of 2 sweeps"):
        Sampling(Schedule(sweeps=2), burn_in=2)
    # Two masks, twelve logits each.
    monkeypatch.setattr(mcmc, "BYTES_PER_LOGIT", 100)
    monkeypatch.setattr(mcmc.psutil, "virtual_memory", lambda: SimpleNamespace(available=3001))
    with pytest.raises(LexergyError, match=r"`chains` is 2: .* expected at most 1;"):
        sample_masked_lm(lm, [lm.blank(2)], sampling)
