"""Electric on a pretrained encoder: vectors by spelling, layers as they were."""

import pytest
import torch

from lexergy.errors import LexergyError
from lexergy.models.cloze import ElectricModel
from lexergy.models.cloze.transfer import token_vectors, transferred_vectors
from lexergy.models.energies.backbones import encoder_backbone
from lexergy.models.loading.tokenizer import train_tokenizer
from lexergy.testing import save_tiny_encoder

WORDS = ["the", "cat", "sat", "##at"]


@pytest.fixture(scope="module")
def backbone(tmp_path_factory):
    folder = tmp_path_factory.mktemp("encoder")
    save_tiny_encoder(folder, WORDS, num_layers=2)
    found = encoder_backbone(folder)
    found.tokenizer.add_special_tokens({"mask_token": "[MASK]"})
    return found


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    return train_tokenizer(["the cat sat sad s"] * 9, 270, tmp_path_factory.mktemp("bpe"), spoken=True)


@pytest.fixture(scope="module")
def vectors(backbone, tokenizer):
    return transferred_vectors(token_vectors(backbone.model).detach(), backbone.tokenizer, tokenizer)


def test_tokens_take_the_vectors_of_their_spelling(backbone, tokenizer, vectors):
    known, wanted = backbone.tokenizer.get_vocab(), tokenizer.get_vocab()
    assert {"Ġthe", "at"} <= set(wanted), "the merges that this test reads"
    old = token_vectors(backbone.model)
    torch.testing.assert_close(vectors[wanted["Ġthe"]], old[known["the"]])
    torch.testing.assert_close(vectors[wanted["at"]], old[known["##at"]])  # inside a word
    torch.testing.assert_close(vectors[wanted["Ġs"]], old[known["s"]])  # where a word starts: not ##s
    torch.testing.assert_close(vectors[wanted["s"]], old[known["##s"]])
    torch.testing.assert_close(vectors[tokenizer.eos_token_id], old[backbone.tokenizer.sep_token_id])
    torch.testing.assert_close(vectors[tokenizer.mask_token_id], old[backbone.tokenizer.mask_token_id])


def test_what_is_spelt_with_several_tokens_takes_their_mean(backbone, tokenizer, vectors):
    known, old = backbone.tokenizer.get_vocab(), token_vectors(backbone.model)
    torch.testing.assert_close(vectors[tokenizer.get_vocab()["Ġsat"]], old[known["sat"]])
    both = transferred_vectors(old.detach(), backbone.tokenizer, _only(tokenizer, " sats"))
    torch.testing.assert_close(both[0], (old[known["sat"]] + old[known["##s"]]) / 2)


def _only(tokenizer, text):
    """A tokenizer whose only token is this text."""

    class One(type(tokenizer)):
        def __len__(self):
            return 1

        def decode(self, ids):
            return text

    return One(tokenizer_object=tokenizer.backend_tokenizer)


def test_its_first_layers_are_the_encoder_s(backbone):
    tokens = torch.tensor([[2, 5, 6, 7, 3]])
    same = token_vectors(backbone.model).detach()
    whole, half = (ElectricModel.from_encoder(backbone.model, same, layers, seed=0).eval() for layers in (2, 1))
    with torch.no_grad():
        states = backbone.model.eval()(tokens, output_hidden_states=True).hidden_states
        torch.testing.assert_close(whole(tokens).last_hidden_state, states[2])
        torch.testing.assert_close(half(tokens).last_hidden_state, states[1])


def test_it_learns_apart_from_the_encoder_and_every_token_may_change(backbone):
    model = ElectricModel.from_encoder(backbone.model, token_vectors(backbone.model).detach(), 1, seed=0)
    model(torch.arange(model.vocab_size)[:, None]).energies.sum().backward()
    gradient = token_vectors(model).grad
    assert (gradient.abs().amax(1) > 0).all()  # padding's too: its number is another token here
    assert token_vectors(backbone.model).grad is None


def test_more_layers_than_there_are(backbone):
    with pytest.raises(LexergyError, match="`num_layers` is 3 and the encoder has 2"):
        ElectricModel.from_encoder(backbone.model, token_vectors(backbone.model).detach(), 3, seed=0)
