import pytest
import torch

from lexergy.core.vocabulary import NEVER
from lexergy.errors import LexergyError
from lexergy.models.architectures.conditional_transformer import ConditionalTransformer, ConditionalTransformerConfig
from lexergy.models.loading import devices
from lexergy.models.masked.conditional import ConditionalMaskedLM
from lexergy.testing import EnumerableMaskedLM
from toys.translators import EnumerableTranslator

SEPARATOR, FIRST_WORD = 3, 5
# Sources and targets of different lengths.
SIDES = [([5, 6, 7], [8, 5]), ([8], [6, 6, 7, 5]), ([5, 5], [7])]
ROWS = [[*source, SEPARATOR, *target] for source, target in SIDES]


@pytest.fixture(scope="module")
def lm():
    return EnumerableTranslator()


def logits_by_hand(lm, source, target):
    """The network on one unpadded pair, special tokens left out."""
    with torch.no_grad():
        return lm.model(torch.tensor([source]), torch.tensor([target]))[0, :, FIRST_WORD:].double()


def energy_by_hand(lm, source, target, normalised):
    total = 0.0
    for place, token in enumerate(target):
        masked = [*target[:place], lm.mask_token, *target[place + 1 :]]
        scores = logits_by_hand(lm, source, masked)[place]
        total -= float(scores[token - FIRST_WORD] - (scores.logsumexp(0) if normalised else 0.0))
    return total


@pytest.mark.parametrize("kind", ["raw", "local"])
def test_the_energy_is_the_sum_of_masked_scores_of_the_target(lm, kind, monkeypatch):
    expected = [energy_by_hand(lm, *sides, kind == "local") for sides in SIDES]
    padded = lm.pad(ROWS)
    assert lm.energy(kind)(padded).tolist() == pytest.approx(expected, abs=1e-5)
    wider = torch.nn.functional.pad(padded, (0, 3), value=lm.pad_token)
    assert lm.energy(kind)(wider).tolist() == pytest.approx(expected, abs=1e-5)
    monkeypatch.setattr(devices, "TOKENS_AT_ONCE_CPU", 14)
    assert lm.energy(kind)(padded).tolist() == pytest.approx(expected, abs=1e-5)


def test_states_at_some_places_are_those_of_the_whole_decoder():
    """Two layers, rows of different lengths and with several places, two rows of one source."""
    config = ConditionalTransformerConfig(
        **{"vocab_size": 9, "hidden_size": 16, "num_layers": 2, "num_heads": 2, "feed_forward_size": 32},
        **{"max_tokens": 5, "initializer_range": 0.4},
    )
    model = ConditionalTransformer.from_config(config, seed=0).eval()
    sources, which = model.encode(torch.tensor([[5, 6, 7], [8, 0, 0]])), torch.tensor([1, 0, 1])
    targets = torch.tensor([[3, 4, 5, 6], [7, 8, 0, 0], [1, 1, 2, 0]])
    places = torch.tensor([[1, 0, 1, 0], [0, 1, 0, 0], [1, 0, 0, 0]]).bool()
    expected = model.decode(targets, sources.select(which))[places]
    torch.testing.assert_close(model.states_at(targets, places, sources, which), expected, rtol=0, atol=1e-5)


def test_the_source_matters(lm):
    energies = lm.local_energy(lm.pad([[*source, SEPARATOR, 6, 7] for source in ([5, 6], [6, 5], [8])]))
    assert len({round(value, 3) for value in energies.tolist()}) == 3


def test_conditionals_of_a_block_mask_all_of_it(lm):
    tokens = lm.pad(ROWS)
    block = torch.zeros_like(tokens, dtype=torch.bool)
    block[0, 4] = block[1, [2, 5]] = True
    found = lm.conditionals(tokens, block)
    mask = lm.mask_token
    expected = [
        logits_by_hand(lm, [5, 6, 7], [mask, 5])[:1],
        logits_by_hand(lm, [8], [mask, 6, 7, mask])[[0, 3]],
    ]
    torch.testing.assert_close(found[:, FIRST_WORD:].double(), torch.cat(expected), rtol=0, atol=1e-5)
    assert (found[:, :FIRST_WORD] == NEVER).all()


def test_remembered_energies_are_the_same(lm):
    remembering = EnumerableTranslator()
    remembering.remember_energies()
    for rows in (ROWS, ROWS[::-1]):
        torch.testing.assert_close(
            remembering.local_energy(lm.pad(rows)), lm.local_energy(lm.pad(rows)), rtol=0, atol=1e-5
        )


def test_what_is_forgotten_is_computed_again(lm, monkeypatch):
    remembering = EnumerableTranslator()
    remembering.remember_energies()
    energies = remembering.local_energy(lm.pad(ROWS))
    with monkeypatch.context() as patch:
        patch.setattr(remembering, "_logits", None)
        assert torch.equal(remembering.local_energy(lm.pad(ROWS)), energies)
        remembering.forget()
        with pytest.raises(TypeError):
            remembering.local_energy(lm.pad(ROWS))
    assert torch.equal(remembering.local_energy(lm.pad(ROWS)), energies)


def test_remembered_contexts_are_the_same(lm):
    """The energy has read the contexts that the conditionals are asked for, and a block of two is no such context."""
    remembering = EnumerableTranslator()
    remembering.remember_energies()
    tokens = lm.pad(ROWS)
    remembering.local_energy(tokens)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(remembering, "_logits", None)
        block = torch.zeros_like(tokens, dtype=torch.bool)
        block[0, 4] = block[1, 2] = block[2, 3] = True
        found = remembering.conditionals(tokens, block)
    torch.testing.assert_close(found, lm.conditionals(tokens, block), rtol=0, atol=1e-5)
    block[1, 4] = True
    torch.testing.assert_close(
        remembering.conditionals(tokens, block), lm.conditionals(tokens, block), rtol=0, atol=1e-5
    )


def test_templates_have_as_many_masks_as_the_length_that_is_likeliest(lm):
    sentences = ["the state", "union", "of the state of union"]
    templates = lm.templates(sentences)
    for sentence, template in zip(sentences, templates, strict=True):
        source = lm.tokenizer.encode(sentence, add_special_tokens=False)
        with torch.no_grad():
            distribution = lm.model.encode(torch.tensor([source])).length_logits[0]
        length = 1 + int(distribution.argmax())
        assert template == [*source, lm.separator, *[lm.mask_token] * length]
    with pytest.raises(LexergyError, match="has 9 tokens; the model reads at most 8"):
        lm.templates(["the " * 9])
    with pytest.raises(LexergyError, match="is empty"):
        lm.templates(["the", ""])


def test_only_the_target_is_text(lm):
    assert lm.decode(lm.pad(ROWS)[1]) == "state state of the"


def test_a_saved_model_is_the_same(lm, tmp_path):
    lm.save_pretrained(tmp_path / "model")
    for source in (tmp_path, tmp_path / "model"):
        loaded = ConditionalMaskedLM.from_pretrained(source)
        assert torch.equal(loaded.local_energy(lm.pad(ROWS)), lm.local_energy(lm.pad(ROWS)))
    assert loaded.templates(["the state"]) == lm.templates(["the state"])


def test_another_model_is_refused(tmp_path):
    EnumerableMaskedLM().save_pretrained(tmp_path)
    with pytest.raises(LexergyError, match="holds no conditional masked LM"):
        ConditionalMaskedLM.from_pretrained(tmp_path)
