import pytest
import torch
from transformers import BertModel

from lexergy.core.vocabulary import NEVER
from lexergy.errors import LexergyError
from lexergy.models.architectures.scratch import build_masked_lm
from lexergy.models.loading import devices
from lexergy.models.loading.tokenizer import train_tokenizer
from lexergy.models.masked.lm import MaskedLM
from lexergy.testing import EnumerableMaskedLM

# Different lengths, and a mask left out: what stands there does not matter to the tests.
ROWS = [[2, 5, 6, 7, 5, 8, 3], [2, 8, 9, 3], [2, 10, 3]]


@pytest.fixture(scope="module")
def bert():
    return EnumerableMaskedLM()


@pytest.fixture(scope="module")
def scratch(tmp_path_factory):
    folder = tmp_path_factory.mktemp("scratch")
    tokenizer = train_tokenizer(["the state of the union is strong"], 270, folder)
    names = {"mask_token": tokenizer.mask_token_id, "pad_token": tokenizer.pad_token_id}
    sizes = {"hidden_size": 16, "num_layers": 1, "num_heads": 2, "max_length": 64}
    return {
        architecture: MaskedLM(
            build_masked_lm(len(tokenizer), **sizes, seed=0, architecture=architecture, **names), tokenizer
        )
        for architecture in ("eurobert", "roberta")
    }


def energy_by_hand(lm, row, normalised):
    """One position after the other, one row at a time, from the model's whole output."""
    total = 0.0
    for place, token in enumerate(row):
        if token in lm.special_tokens.tolist():
            continue
        masked = list(row)
        masked[place] = lm.mask_token
        logits = lm.model(input_ids=torch.tensor([masked])).logits[0, place].double().detach()
        logits[lm.special_tokens] = -torch.inf
        total -= float(logits[token] - (logits.logsumexp(0) if normalised else 0.0))
    return total


@pytest.mark.parametrize("kind", ["raw", "local"])
def test_energies_of_rows_of_different_lengths(bert, kind, monkeypatch):
    expected = [energy_by_hand(bert, row, kind == "local") for row in ROWS]
    found = bert.energy(kind)(bert.pad(ROWS))
    assert found.tolist() == pytest.approx(expected, abs=1e-5)
    monkeypatch.setattr(devices, "TOKENS_AT_ONCE_CPU", 15)
    assert bert.energy(kind)(bert.pad(ROWS)).tolist() == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("architecture", ["eurobert", "roberta"])
def test_energies_of_models_trained_here(scratch, architecture):
    lm = scratch[architecture]
    rows = [lm.encode("the state"), lm.encode("union is strong")]
    expected = [energy_by_hand(lm, row, normalised=True) for row in rows]
    assert lm.local_energy(lm.pad(rows)).tolist() == pytest.approx(expected, abs=1e-5)


def test_conditionals_of_a_block_mask_all_of_it(bert):
    tokens = bert.pad(ROWS)
    block = torch.zeros_like(tokens, dtype=torch.bool)
    block[0, [1, 4]] = block[1, 2] = True
    found = bert.conditionals(tokens, block)
    assert found.shape == (3, 12)
    expected = []
    for row, places in ((ROWS[0], [1, 4]), (ROWS[1], [2])):
        masked = torch.tensor([row]).index_fill(1, torch.tensor(places), bert.mask_token)
        expected.append(bert.model(input_ids=masked).logits[0, places].detach())
    torch.testing.assert_close(found[:, 5:11], torch.cat(expected)[:, 5:11], rtol=0, atol=1e-5)
    assert (found[:, [0, 1, 2, 3, 4, 11]] == NEVER).all()  # special tokens, and a number that no word has


def test_prompts(bert, scratch):
    assert bert.encode("the [MASK] [MASK] of the union") == [2, 5, 4, 4, 7, 5, 8, 3]
    assert bert.blank(2) == [2, 4, 4, 3]
    assert bert.decode(torch.tensor([2, 5, 8, 3, 0])) == "the union"
    lm = scratch["eurobert"]
    encoded = lm.encode("the [MASK] of")
    assert encoded == [*lm.encode("the"), lm.mask_token, *lm.encode(" of")]  # no blank of its own before the mask
    assert lm.blank(3) == [lm.mask_token] * 3


def test_a_tokenizer_without_a_mask():
    lm = EnumerableMaskedLM()
    lm.tokenizer.mask_token = None
    with pytest.raises(LexergyError, match="no mask token"):
        MaskedLM(lm.model, lm.tokenizer)


def test_loading(bert, tmp_path):
    run = tmp_path / "run"
    bert.save_pretrained(run / "masked_lm")
    for source in (run, run / "masked_lm"):
        loaded = MaskedLM.from_pretrained(source)
        assert torch.equal(loaded.local_energy(bert.pad(ROWS)), bert.local_energy(bert.pad(ROWS)))


def test_an_encoder_without_its_head_is_refused(bert, tmp_path):
    BertModel(bert.model.config).save_pretrained(tmp_path)
    with pytest.raises(LexergyError, match=r"holds BertModel; expected a masked LM with its head"):
        MaskedLM.from_pretrained(tmp_path)
