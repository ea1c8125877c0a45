"""An LM of reversed text, in reading order."""

import pytest
import torch

from lexergy.core.enumeration import all_sequences
from lexergy.errors import LexergyError
from lexergy.models.causal.lm import CausalLM
from lexergy.models.causal.right_to_left import RightToLeftLM
from lexergy.testing import EnumerableLM

VOCAB = 5


@pytest.fixture(scope="module")
def model():
    return EnumerableLM(VOCAB).model


@pytest.fixture(scope="module")
def backwards(model) -> RightToLeftLM:
    return RightToLeftLM(CausalLM(model, forbidden_tokens=(0,), direction="right_to_left"))


def rows() -> torch.Tensor:
    return torch.randint(1, VOCAB, (4, 7), generator=torch.Generator().manual_seed(0))


def test_log_probabilities_are_those_of_the_reversed_text_left_to_right(model, backwards):
    forwards = CausalLM(model, forbidden_tokens=(0,))
    reversed_rows = torch.tensor([row[::-1] for row in rows().tolist()])
    expected = forwards.token_log_prob(reversed_rows, prefix_length=3)  # (B, 4), from the last token to the first
    found = backwards.token_log_prob(rows(), suffix_length=3)
    for place in range(4):
        torch.testing.assert_close(found[:, place], expected[:, 3 - place])
    torch.testing.assert_close(backwards.log_prob(rows(), suffix_length=3), expected.sum(1))


def test_the_token_next_to_the_suffix_is_the_first_one_written(model, backwards):
    distribution = CausalLM(model, forbidden_tokens=(0,)).next_log_prob(rows()[:, 4:].flip(1))  # (B, V)
    found = backwards.token_log_prob(rows(), suffix_length=3)[:, -1]
    torch.testing.assert_close(found, distribution.gather(1, rows()[:, 3:4]).squeeze(1))


def test_all_prefixes_of_a_suffix_have_probability_one(backwards):
    prefixes, suffix = all_sequences(VOCAB, 3), torch.tensor([2, 4])
    allowed = prefixes[(prefixes != 0).all(1)]
    texts = torch.cat((allowed, suffix.expand(len(allowed), -1)), 1)
    total = backwards.log_prob(texts, suffix_length=2).exp().sum()
    assert float(total) == pytest.approx(1, abs=1e-5)


def test_samples_come_before_their_suffix(backwards):
    suffixes = rows()[:, 4:]
    samples = backwards.sample(suffixes, num_samples=6, max_new_tokens=4, seed=3)
    texts = torch.cat((samples.tokens, suffixes[:, None].expand(-1, 6, -1)), -1)  # (B, K, 7)
    found = backwards.log_prob(texts.flatten(0, 1), suffix_length=3).view(4, 6)
    torch.testing.assert_close(found, samples.log_prob, atol=1e-5, rtol=1e-5)
    wrong = torch.cat((samples.tokens.flip(-1), suffixes[:, None].expand(-1, 6, -1)), -1)
    assert not torch.allclose(backwards.log_prob(wrong.flatten(0, 1), suffix_length=3).view(4, 6), samples.log_prob)


def test_a_folder_knows_its_direction(model, tmp_path):
    lm = CausalLM(model, forbidden_tokens=(0,), direction="right_to_left", source=str(tmp_path))
    model.save_pretrained(tmp_path)
    lm.save_pretrained(tmp_path)
    again = RightToLeftLM.from_pretrained(tmp_path)
    assert again.lm.forbidden_tokens == (0,)
    assert again.fingerprint() == lm.fingerprint() != CausalLM(model, forbidden_tokens=(0,)).fingerprint()
    with pytest.raises(LexergyError, match=r"reads right to left; expected left to right; .* RightToLeftLM"):
        CausalLM.from_pretrained(tmp_path)
    CausalLM(model, source=str(tmp_path)).save_pretrained(tmp_path)
    with pytest.raises(LexergyError, match=r"reads left to right; expected right to left; .* CausalLM"):
        RightToLeftLM.from_pretrained(tmp_path)
    with pytest.raises(LexergyError, match="expected one of reversed text"):
        RightToLeftLM(CausalLM(model))
