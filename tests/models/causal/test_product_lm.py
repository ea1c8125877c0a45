"""RALM's distribution by hand on a tiny vocabulary, what its gradient reaches, and LMs with n-gram tables."""

import pytest
import torch
from torch import nn
from transformers.modeling_outputs import CausalLMOutput

from lexergy.errors import LexergyError
from lexergy.models.architectures.scratch import build_causal_lm
from lexergy.models.causal.product_lm import NGRAM_FILE, NgramLM, ProductLM, num_parameters
from lexergy.models.energies import NgramTables

VOCABULARY = 5
SHAPE = {"vocab_size": VOCABULARY, "hidden_size": 8, "num_layers": 1, "num_heads": 2, "max_length": 8}
TABLES = NgramTables(orders=(1, 2), buckets=7, width=3)
TOKENS = torch.tensor([[0, 3, 1, 4], [2, 2, 0, 1]])


class BigramLM(nn.Module):
    """A distribution of the next token given the last, as a table of logits; dropout to be noticed when it is on."""

    def __init__(self, logits):
        super().__init__()
        self.logits = nn.Parameter(logits)
        self.dropout = nn.Dropout(0.5)

    def forward(self, input_ids):
        return CausalLMOutput(logits=self.dropout(self.logits[input_ids]))


def table(seed):
    return torch.randn(VOCABULARY, VOCABULARY, generator=torch.Generator().manual_seed(seed)) * 2


def distribution(model):
    return model(input_ids=TOKENS).logits.softmax(-1)  # (B, L, V)


def test_the_law_is_the_normalised_product():
    of_lm, of_residual = table(0).softmax(-1), table(1).softmax(-1)
    found = distribution(ProductLM(BigramLM(table(0)), BigramLM(table(1))).eval())
    for row, tokens in enumerate(TOKENS.tolist()):
        for position, token in enumerate(tokens):
            products = [float(of_lm[token, word] * of_residual[token, word]) for word in range(VOCABULARY)]
            expected = torch.tensor([product / sum(products) for product in products])
            torch.testing.assert_close(found[row, position], expected)
            assert not torch.allclose(found[row, position], of_lm[token], atol=1e-3)


def test_a_constant_per_position_changes_nothing():
    """So the LM's log-softmax need not be taken: a distribution without it is the same distribution."""
    product = ProductLM(BigramLM(table(0)), BigramLM(table(1))).eval()
    normalised = ProductLM(BigramLM(table(0).log_softmax(-1)), BigramLM(table(1))).eval()
    torch.testing.assert_close(distribution(product), distribution(normalised))


def test_a_uniform_residual_leaves_the_lm_as_it_is():
    lm = BigramLM(table(0)).eval()
    torch.testing.assert_close(distribution(ProductLM(lm, BigramLM(torch.full((5, 5), 0.7))).eval()), distribution(lm))


def test_only_the_residual_is_trained_and_the_lm_stays_without_dropout():
    lm, residual = BigramLM(table(0)), BigramLM(table(1))
    product = ProductLM(lm, residual).train()
    assert residual.training
    assert not lm.training
    # d/d logits of -log P(y | x) is P - onehot, of the product and not of the residual alone.
    residual.dropout.p = 0.0
    logits = product(input_ids=torch.tensor([[2]])).logits[0, 0]
    (-logits.log_softmax(-1)[3]).backward()
    expected = (table(0)[2] + table(1)[2]).softmax(-1) - torch.eye(VOCABULARY)[3]
    torch.testing.assert_close(residual.logits.grad[2], expected)
    assert lm.logits.grad is None
    assert [name for name, value in product.named_parameters() if value.requires_grad] == ["residual.logits"]


@pytest.mark.parametrize(
    "architecture", [{"architecture": "llama"}, {"architecture": "opt", "embedding_size": 6}], ids=["llama", "opt"]
)
def test_n_gram_tables_start_at_nothing_and_then_count(architecture, tmp_path):
    model = build_causal_lm(**SHAPE, **architecture, seed=0).eval()
    before = model(input_ids=TOKENS).logits
    lm = NgramLM(model, TABLES, seed=1).eval()
    torch.testing.assert_close(lm(input_ids=TOKENS).logits, before)
    width = model.get_input_embeddings().embedding_dim
    assert num_parameters(lm) == model.num_parameters() + 2 * 7 * 3 + 2 * (2 * 3 * width)

    lm(input_ids=TOKENS).logits.square().sum().backward()
    for weight in (lm.ngram_input.weight, lm.ngram_output.weight):
        assert weight.grad.abs().sum() > 0
    with torch.no_grad():
        lm.ngram_input.weight.normal_(generator=torch.Generator().manual_seed(0))
        lm.ngram_output.weight.normal_(generator=torch.Generator().manual_seed(1))
        lm.ngrams.tables[1].weight.mul_(50)
    changed = lm(input_ids=TOKENS).logits
    assert (changed - before).abs().max() > 0.1
    # Causal: the last token changes nothing before it.
    other = TOKENS.clone()
    other[:, -1] = 2
    torch.testing.assert_close(lm(input_ids=other).logits[:, :-1], changed[:, :-1])

    lm.save_pretrained(tmp_path)
    loaded = NgramLM.from_pretrained(tmp_path)
    assert loaded.ngrams.settings == TABLES
    torch.testing.assert_close(loaded(input_ids=TOKENS).logits, changed)
    (tmp_path / NGRAM_FILE).write_bytes(b"cut")
    with pytest.raises(LexergyError, match="truncated or damaged"):
        NgramLM.from_pretrained(tmp_path)
