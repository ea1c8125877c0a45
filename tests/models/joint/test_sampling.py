"""Generation from the joint model (Algorithm 1), against exact enumeration."""

import math
import warnings

import pytest
import torch
from torch import Tensor

from lexergy.core.estimation.importance import effective_sample_size
from lexergy.errors import LexergyError
from lexergy.models.joint.model import ResidualEBM
from lexergy.models.joint.sampling import UnreliableWeightsWarning
from lexergy.testing import EnumerableLM, TableEnergy, chi_square_p_value, exact_log_prob, joint_log_prob
from toys.joint import index, random_energy, table


@pytest.fixture(scope="module")
def gpt() -> ResidualEBM:
    return ResidualEBM(EnumerableLM(num_layers=1), TableEnergy(length=3, scale=1.5))


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
