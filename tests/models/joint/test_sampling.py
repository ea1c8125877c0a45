"""Generation from the joint model (Algorithm 1), against exact enumeration."""

import math
import warnings

import pytest
import torch
from torch import Tensor

from lexergy.core.conditions import Conditions, UnlikeTrainingWarning
from lexergy.core.enumeration import all_sequences
from lexergy.core.estimation.importance import effective_sample_size
from lexergy.errors import LexergyError
from lexergy.models.causal.lm import CausalLM
from lexergy.models.energies import TextEnergy
from lexergy.models.joint.model import ResidualEBM
from lexergy.models.joint.sampling import UnreliableWeightsWarning
from lexergy.testing import (
    EnumerableLM,
    EnumerableMaskedLM,
    TableEnergy,
    chi_square_p_value,
    exact_log_prob,
    joint_log_prob,
)
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


def test_an_end_token_ends_a_candidate(gpt):
    joint = ResidualEBM(gpt.lm.ending(1), lambda tokens: 0.1 * tokens.sum(1))
    out = joint.generate([3], num_candidates=400, max_new_tokens=5)
    ended = [c.tokens for c in out.candidates if c.tokens[-1] == 1]
    assert {len(tokens) for tokens in ended} >= {1, 2}
    assert all(1 not in tokens[:-1] for tokens in ended)
    assert all(len(c.tokens) == 5 for c in out.candidates if c.tokens[-1] != 1)
    assert all(c.energy == pytest.approx(0.1 * (3 + sum(c.tokens))) for c in out.candidates)
    endless = joint.generate([3], num_candidates=400, max_new_tokens=5, stop_at_end=False)
    assert all(len(c.tokens) == 5 and 1 not in c.tokens for c in endless.candidates)


def text_energy(texts: list[str]) -> list[float]:
    return [0.3 * len(text.split()) for text in texts]


@pytest.fixture(scope="module")
def words() -> ResidualEBM:
    tokenizer = EnumerableMaskedLM().tokenizer
    lm = CausalLM(EnumerableLM(len(tokenizer), sharpness=2.0).model, tokenizer, forbidden_tokens=range(5))
    return ResidualEBM(lm, TextEnergy(text_energy))


def test_a_stop_string_may_lie_across_tokens(words):
    plain = words.generate("the state", num_candidates=120, max_new_tokens=4)
    out = words.generate("the state", num_candidates=120, max_new_tokens=4, stop=["union is", "strong"])
    assert len(out.candidates) == 120
    drawn = words.lm.sample(words.lm.encode("the state")[None], num_samples=120, max_new_tokens=4)
    expected = set()
    for row in drawn.tokens[0]:
        pieces = [words.lm.decode(row[: count + 1])[0] for count in range(4)]
        length = next((i + 1 for i, text in enumerate(pieces) if "union is" in text or "strong" in text), 4)
        expected.add(tuple(row[:length].tolist()))
    assert {candidate.tokens for candidate in out.candidates} == expected
    assert {len(tokens) for tokens in expected} == {1, 2, 3, 4}
    for candidate in out.candidates:
        whole = words.lm.decode(torch.tensor(candidate.tokens))[0]
        assert candidate.text == whole.split("union is")[0].split("strong")[0]
        assert candidate.energy == pytest.approx(0.3 * (2 + len(candidate.tokens)))  # of the tokens drawn
        rows = torch.tensor([[*words.lm.encode("the state"), *candidate.tokens]])
        assert candidate.log_prob == pytest.approx(float(words.lm.log_prob(rows, prefix_length=2)), abs=1e-4)
    assert any("strong" in candidate.text for candidate in plain.candidates)


def test_stopped_texts_follow_the_joint_distribution_of_stopped_texts(words):
    """P(x) of each text up to `strong`, by enumeration; chi-square over 200 seeds fails with probability 1e-4."""
    prompt, length, stop = words.lm.encode("the state"), 2, words.lm.encode("strong").item()
    log_prob, rows = exact_log_prob(words.lm, prompt, length), all_sequences(words.lm.vocab_size, length)
    stopped = rows[:, 0] == stop
    weights = torch.where(stopped, 0.3 * 3, 0.3 * 4).neg() + log_prob
    exact = weights.exp() / weights.exp().sum()
    probabilities = torch.cat([exact[stopped].sum()[None], exact[~stopped]])
    counts = torch.zeros(len(probabilities))
    for seed in range(200):
        out = words.generate("the state", num_candidates=32, max_new_tokens=length, seed=seed, stop=["strong"])
        place = (rows[~stopped] == out.tokens).all(1).nonzero() + 1 if len(out.tokens) == length else 0
        counts[int(place)] += 1
    assert counts[0] > 10
    assert chi_square_p_value(counts, probabilities) > 1e-4


def test_generation_stops_where_the_lm_may_write_end_of_text(words):
    tokenizer = EnumerableMaskedLM().tokenizer
    tokenizer.eos_token = tokenizer.sep_token
    free = ResidualEBM(CausalLM(words.lm.model, tokenizer, forbidden_tokens=(0, 1, 2, 4)), TextEnergy(text_energy))
    options = {"num_candidates": 60, "max_new_tokens": 5}
    lengths = {len(candidate.tokens) for candidate in free.generate("the state", **options).candidates}
    assert lengths == {1, 2, 3, 4, 5}
    strict = ResidualEBM(free.lm.endless(), free.energy)
    assert {len(candidate.tokens) for candidate in strict.generate("the state", **options).candidates} == {5}
    ended = strict.generate("the state", stop_at_end=True, **options)
    assert {len(candidate.tokens) for candidate in ended.candidates} == lengths
    assert not any("[SEP]" in candidate.text for candidate in ended.candidates)
    with pytest.raises(LexergyError, match="no end-of-text token"):
        words.generate("the state", stop_at_end=True)
    for wrong in (["strong", ""], "strong"):
        with pytest.raises(LexergyError, match="expected a list of strings, none of them empty"):
            words.generate("the state", stop=wrong)


def test_generation_warns_of_a_use_unlike_the_training(words):
    joint = ResidualEBM(words.lm, words.energy, Conditions(prefix=8, continuation=4))
    with pytest.warns(UnlikeTrainingWarning) as caught:
        out = joint.generate("the state", num_candidates=40, max_new_tokens=5, top_k=3, stop=["strong"])
    stopped = sum(len(candidate.tokens) < 5 for candidate in out.candidates)
    assert [str(warning.message) for warning in caught] == list(out.warnings)
    assert "prefixes of 8 tokens and continuations of 4; here the prompt has 2 and 5 are written" in out.warnings[0]
    assert "untruncated samples of the LM; candidates here are top-k 3" in out.warnings[1]
    assert f"continuations of 4 tokens; {stopped} of 40 candidates here stop sooner" in out.warnings[2]
    assert {warning.filename for warning in caught} == {__file__}
    assert joint.generate("the state of the", num_candidates=40, max_new_tokens=5).warnings == ()


def test_an_energy_of_texts_that_end_is_at_home_with_them(words):
    joint = ResidualEBM(words.lm.ending(3), words.energy, Conditions(prefix=2, continuation=4, ends=True))
    out = joint.generate("the state", num_candidates=40, max_new_tokens=5)
    assert min(len(candidate.tokens) for candidate in out.candidates) < 5
    assert out.warnings == ()
    with pytest.warns(UnlikeTrainingWarning, match="4 tokens or up to end-of-text; .* of 40 candidates here stop"):
        joint.generate("the state", num_candidates=40, max_new_tokens=5, stop=["strong"])


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
