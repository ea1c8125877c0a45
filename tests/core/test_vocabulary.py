import pytest
import torch

from lexergy.core import vocabulary
from lexergy.core.vocabulary import BLOCK, NEVER, block_maxima, block_of, log_totals, ranks, summarise

SIZES = pytest.mark.parametrize("vocab_size", [7, 128, 300, 1024])


def skewed(vocab_size: int) -> torch.Tensor:
    logits = torch.randn(5, vocab_size, generator=torch.Generator().manual_seed(vocab_size)) * 4 + 50
    logits[:, 1::3] = NEVER  # forbidden tokens
    return logits


@SIZES
@pytest.mark.parametrize("chunk", [1, 2**20])
def test_moments_are_those_of_the_whole_law(vocab_size, chunk, monkeypatch):
    monkeypatch.setattr(vocabulary, "_CHUNK", chunk)
    logits = skewed(vocab_size)
    log_total, entropy, variance = summarise(logits).moments()
    log_probs = logits.double().log_softmax(-1)
    probs = log_probs.exp()
    expected = -(probs * log_probs).sum(-1)
    assert torch.allclose(log_total, logits.double().logsumexp(-1), atol=1e-5)
    assert torch.allclose(log_totals(logits), logits.double().logsumexp(-1), atol=1e-5)
    assert torch.allclose(entropy, expected, atol=1e-4)
    assert torch.allclose(variance, (probs * log_probs**2).sum(-1) - expected**2, atol=1e-3)


@SIZES
def test_ranks_count_the_likelier_tokens(vocab_size):
    logits, tokens = skewed(vocab_size), torch.tensor([0, 2, 3, 5, 6])
    order = logits.argsort(dim=-1, descending=True, stable=True)
    expected = (order == tokens[:, None]).int().argmax(-1)
    for laid in (logits, logits.T.contiguous().T):  # row by row, or token by token
        assert torch.equal(ranks(laid, tokens, block_maxima(laid)), expected)


def test_blocks_are_cut_and_filled_up():
    logits = skewed(300)
    last = block_of(logits, torch.full((5,), 2))
    assert torch.equal(last[:, : 300 - 2 * BLOCK], logits[:, 2 * BLOCK :])
    assert (last[:, 300 - 2 * BLOCK :] == NEVER).all()
    assert torch.equal(block_maxima(logits)[:, 1], logits[:, BLOCK : 2 * BLOCK].amax(-1))
