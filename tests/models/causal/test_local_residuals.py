"""A corrected LM is an LM: normalised, sampled as it is scored, read by energies, saved and found again."""

import itertools

import pytest
import torch

from lexergy import CausalLM
from lexergy.core.enumeration import all_sequences
from lexergy.errors import LexergyError
from lexergy.models.causal.local_residuals import UnigramResidual, file_of
from lexergy.models.causal.state_features import StateFeatures
from lexergy.models.causal.top_log_probs import top_log_probs
from lexergy.models.joint.model import ResidualEBM
from lexergy.models.scoring.causal import causal_scorer
from lexergy.models.scoring.kinds import load_scorer
from lexergy.testing import EnumerableLM, TableEnergy, assert_sampler_contract, exact_log_prob, log_partition
from toys.local_residuals import corrected_log_probs, toy_residuals

KINDS = ("unigram", "adapter", "ngram")
SUBSETS = [subset for count in (1, 2, 3) for subset in itertools.combinations(KINDS, count)]


def rows_after(prefix: int, length: int = 3) -> torch.Tensor:
    continuations = all_sequences(7, length)
    return torch.cat([torch.full((len(continuations), 1), prefix), continuations], 1)


def by_hand(lm: CausalLM, rows: torch.Tensor) -> torch.Tensor:
    log_probs = corrected_log_probs(lm, rows)[:, :-1]
    return log_probs.gather(-1, rows[:, 1:, None]).squeeze(-1).sum(1)


@pytest.mark.parametrize("kinds", SUBSETS, ids="+".join)
def test_probabilities_are_those_by_hand_and_sum_to_one(kinds):
    plain = EnumerableLM(sharpness=4.0, forbidden_tokens=(6,))
    lm, rows = plain.corrected(toy_residuals(plain, *kinds)), rows_after(2)
    log_prob = lm.log_prob(rows, prefix_length=1)
    assert log_prob.exp().sum().item() == pytest.approx(1, abs=1e-5)
    expected = by_hand(lm, rows)
    allowed = ~(rows == 6).any(1)
    assert torch.allclose(log_prob[allowed], expected[allowed], atol=1e-4)
    assert not torch.allclose(log_prob[allowed], plain.log_prob(rows, prefix_length=1)[allowed], atol=0.1)
    assert torch.allclose(exact_log_prob(lm, torch.tensor([2]), 3)[allowed], expected[allowed], atol=1e-4)


def test_every_step_is_normalised_and_told_alike():
    plain = EnumerableLM(sharpness=4.0, forbidden_tokens=(6,))
    lm, row = plain.corrected(toy_residuals(plain)), torch.tensor([2, 5, 5, 1, 3, 4, 0])
    expected = corrected_log_probs(lm, row[None])[0]  # (L, V)
    tops = top_log_probs(lm, row, 1, 7)
    for place in range(1, len(row)):
        step = lm.next_log_prob(row[None, :place])[0]
        assert step.exp().sum().item() == pytest.approx(1, abs=1e-9)
        assert torch.allclose(step.exp(), expected[place - 1].exp(), atol=1e-5)
        assert tops.top_log_prob[place - 1].exp().sum().item() == pytest.approx(1, abs=1e-6)
        assert torch.allclose(step[row[place]], tops.log_prob[place - 1], atol=1e-4)


def test_samples_follow_the_corrected_law():
    plain = EnumerableLM(sharpness=4.0, forbidden_tokens=(0, 2))
    assert_sampler_contract(plain.corrected(toy_residuals(plain)), torch.tensor([[1], [5]]), 3)
    ending = plain.ending(2)
    assert_sampler_contract(ending.corrected(toy_residuals(ending)), torch.tensor([[4]]), 3, top_k=4)


def test_a_joint_model_on_it_is_exact():
    plain = EnumerableLM(sharpness=4.0)
    lm, energy, prefix = plain.corrected(toy_residuals(plain)), TableEnergy(), torch.tensor([3])
    rows = rows_after(3)
    exact = torch.logsumexp(by_hand(lm, rows) - energy(rows), 0)
    assert torch.allclose(log_partition(lm, energy, prefix, 3), exact, atol=1e-4)
    estimate = ResidualEBM(lm, energy).log_z(prefix[None], length=3, num_samples=4000, seed=1)
    assert float(estimate.lower[0]) == pytest.approx(float(exact), abs=0.05)
    assert abs(float(log_partition(plain, energy, prefix, 3) - exact)) > 0.05


def test_energies_read_the_states_of_the_frozen_model():
    plain = EnumerableLM(architecture="llama")
    lm, rows, features = plain.corrected(toy_residuals(plain)), rows_after(1)[::40], StateFeatures((0, 2))
    corrected, frozen = (own.state_features(rows, prefix_length=1, features=features) for own in (lm, plain))
    assert torch.equal(corrected[:, :32], frozen[:, :32])
    assert not torch.allclose(corrected[:, 32], frozen[:, 32])  # the statistics are those of what is sampled
    next_features = lm.next_token_features(rows[:3, :2], torch.tensor([4, 1]), given_length=0, features=features)
    whole = torch.cat([rows[:3, :2].repeat_interleave(2, 0), torch.tensor([4, 1] * 3)[:, None]], 1)
    expected = lm.state_features(whole, prefix_length=2, features=features)
    assert torch.allclose(next_features.flatten(0, 1), expected, atol=1e-4)


def test_it_is_saved_and_found_again(tmp_path, byte_lm):
    residuals = toy_residuals(byte_lm, order=4)
    lm = byte_lm.endless().corrected(reversed(residuals))  # the order is theirs
    lm.save_pretrained(tmp_path / "corrected")
    again = CausalLM.from_pretrained(tmp_path / "corrected")
    assert [residual.kind for residual in again.residuals] == list(KINDS)
    assert again.fingerprint() == lm.fingerprint() != byte_lm.endless().fingerprint()
    assert again.name.endswith(", corrected by unigram, adapter, ngram")
    rows = torch.randint(256, (3, 12), generator=torch.Generator().manual_seed(0))
    assert torch.equal(again.log_prob(rows, prefix_length=4), lm.log_prob(rows, prefix_length=4))
    assert torch.equal(
        again.corrected([]).log_prob(rows, prefix_length=4), byte_lm.endless().log_prob(rows, prefix_length=4)
    )
    own = EnumerableLM()
    own.corrected(toy_residuals(own)).save_pretrained(tmp_path / "own")  # with the model beside it, as it was
    loaded = CausalLM.from_pretrained(tmp_path / "own")
    rows = rows_after(1)[::20]
    expected = own.corrected(toy_residuals(own)).log_prob(rows, prefix_length=1)
    assert torch.allclose(loaded.log_prob(rows, prefix_length=1), expected, atol=1e-5)


def test_texts_are_scored_by_the_corrected_law(tmp_path, byte_lm):
    """Read as trees and as rows: texts that begin alike, and one that is like no other."""
    lm = byte_lm.corrected(toy_residuals(byte_lm, order=4))
    lm.save_pretrained(tmp_path)
    texts = ["the state of", "the stand", "the", "onion"]
    scorer, by_rows = load_scorer(tmp_path), causal_scorer(lm)
    assert scorer._tree_scores is not None
    by_rows._tree_scores = None
    for text, score, alone in zip(texts, scorer.score(texts), by_rows.score(texts), strict=True):
        tokens = torch.cat([torch.tensor([256]), lm.encode(text)])[None]
        expected = lm.token_log_prob(tokens, prefix_length=1)[0]
        assert torch.allclose(torch.tensor(score.log_scores, dtype=torch.double), expected, atol=1e-3)
        assert torch.allclose(torch.tensor(alone.log_scores, dtype=torch.double), expected, atol=1e-3)


def test_what_does_not_fit_is_refused(tmp_path):
    lm = EnumerableLM()
    with pytest.raises(LexergyError, match="fitted to an LM of 9 tokens, and this one has 7"):
        lm.corrected([UnigramResidual(torch.zeros(9), 1.0)])
    lm.corrected(toy_residuals(lm)).save_pretrained(tmp_path)
    file_of(tmp_path, "ngram").write_bytes(b"nothing")
    with pytest.raises(LexergyError, match=r"ngram\.safetensors"):
        CausalLM.from_pretrained(tmp_path)
