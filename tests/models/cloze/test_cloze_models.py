"""Electric, the two towers and the masked generator: what each position may see, sizes, saving."""

import math
from dataclasses import replace

import pytest
import torch
from transformers import AutoModel

from lexergy.errors import LexergyError
from lexergy.models.cloze import ElectricModel, MaskedGenerator, TwoTowerModel
from lexergy.models.cloze.bodies import BERT, BodyShape
from lexergy.models.cloze.pair import NoisePair

VOCAB, LENGTH = 23, 7
BERT_BASE = BodyShape(30522, 768, 12, 12, 512, BERT, 3072, dropout=0.1)  # Table 3, Clark et al. 2020
SHAPES = {
    "eurobert": BodyShape(VOCAB, 16, 2, 4, 16),
    "bert": BodyShape(VOCAB, 16, 2, 4, 16, "bert"),
}


@pytest.fixture(params=sorted(SHAPES))
def shape(request) -> BodyShape:
    return SHAPES[request.param]


@pytest.fixture
def tokens():
    return torch.randint(VOCAB, (3, LENGTH), generator=torch.Generator().manual_seed(0))


def changed(tokens, position):
    tokens = tokens.clone()
    tokens[:, position] = (tokens[:, position] + 1) % VOCAB
    return tokens


def test_two_towers_see_every_token_but_their_own(shape, tokens):
    model = TwoTowerModel.from_shape(shape, seed=1, embedding_size=24).eval()
    with torch.no_grad():
        logits = model(tokens).logits  # (B, n, V)
        assert logits.shape == (3, LENGTH - 2, VOCAB)
        for position in range(LENGTH):
            difference = (model(changed(tokens, position)).logits - logits).abs().amax((0, 2))  # (n,)
            for inside in range(LENGTH - 2):
                assert (difference[inside] > 1e-6) == (inside + 1 != position)


def test_electric_reads_the_token_itself_and_all_others(shape, tokens):
    model = ElectricModel.from_shape(shape, seed=1).eval()
    with torch.no_grad():
        energies = model(tokens).energies
        for position in range(LENGTH):
            assert ((model(changed(tokens, position)).energies - energies).abs().amax(0) > 1e-7).all()


def test_electric_starts_near_the_uniform_law(shape, tokens):
    model = ElectricModel.from_shape(shape, seed=1).eval()
    assert model(tokens).energies.mean().item() == pytest.approx(math.log(VOCAB), abs=0.3)
    assert model.log_partition(tokens[0], 3) == pytest.approx(0, abs=0.3)


def test_models_start_near_a_law_of_tokens(shape, tokens):
    distribution = torch.randn(VOCAB, generator=torch.Generator().manual_seed(3)).log_softmax(0)
    electric = ElectricModel.from_shape(shape, seed=1, start_distribution=distribution).eval()
    towers = TwoTowerModel.from_shape(shape, seed=1, start_distribution=distribution).eval()
    with torch.no_grad():
        torch.testing.assert_close(-electric(tokens).energies, distribution[tokens], atol=0.4, rtol=0)
        torch.testing.assert_close(
            towers(tokens).logits.log_softmax(-1), distribution.expand(3, LENGTH - 2, -1), atol=0.6, rtol=0
        )
    assert electric.log_partition(tokens[0], 3) == pytest.approx(0, abs=0.3)


def test_log_partition_is_the_sum_over_replacements(shape, tokens):
    model = ElectricModel.from_shape(shape, seed=1).eval()
    total = 0.0
    for token in range(VOCAB):
        replaced = tokens[:1].clone()
        replaced[0, 2] = token
        total += math.exp(-model(replaced).energies[0, 2].item())
    assert model.log_partition(tokens[0], 2) == pytest.approx(math.log(total), abs=1e-5)


def test_weights_depend_on_the_seed_alone(shape):
    torch.manual_seed(5)
    first = ElectricModel.from_shape(shape, seed=1).state_dict()
    torch.manual_seed(6)
    again, other = (ElectricModel.from_shape(shape, seed=seed).state_dict() for seed in (1, 2))
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert any(not torch.equal(first[name], other[name]) for name in first)


@pytest.mark.parametrize("kind", [ElectricModel, TwoTowerModel, MaskedGenerator])
def test_saved_and_loaded_models_are_the_same(shape, tokens, kind, tmp_path):
    model = kind.from_shape(shape, seed=1).eval()
    if kind is ElectricModel:
        model = kind.from_shape(shape, seed=1, start_distribution=torch.arange(VOCAB).float().log_softmax(0)).eval()
        torch.nn.init.constant_(model.energy.bias, 0.7)  # not what it starts as
    model.save_pretrained(tmp_path)
    assert not list(tmp_path.glob("*.bin"))
    for loaded in (kind.from_pretrained(tmp_path), AutoModel.from_pretrained(tmp_path)):
        assert type(loaded) is kind
        with torch.no_grad():
            torch.testing.assert_close(loaded.eval()(tokens)[0], model(tokens)[0])


def test_a_pair_shares_its_embeddings(shape):
    pair = NoisePair(
        ElectricModel.from_shape(shape, seed=1),
        TwoTowerModel.from_shape(shape.scaled(1 / 4), seed=2, embedding_size=shape.hidden_size),
    )
    assert pair.noise.embeddings is pair.model.get_input_embeddings()
    names = [name for name, _ in pair.named_parameters() if "embed_tokens" in name or "word_embeddings" in name]
    assert len(names) == 1
    assert not any("noise.embeddings" in name for name, _ in pair.named_parameters())


def test_parameters_at_the_paper_s_size():
    """BERT-Base (110 M with its pooler, which Electric does not have) and towers of a quarter of its width."""
    with torch.device("meta"):
        electric = ElectricModel.from_shape(BERT_BASE, seed=0)
        quarter = BERT_BASE.scaled(1 / 4)
        noise = TwoTowerModel.from_shape(quarter, seed=0, embedding_size=768)
    assert electric.num_parameters() == 109_482_240 - 768 * 769 + 769
    assert (quarter.hidden_size, quarter.feed_forward_size, quarter.num_heads) == (192, 768, 3)
    layer = 4 * (192 * 192 + 192) + 2 * 192 * 768 + 768 + 192 + 4 * 192
    positions = (512 + 2) * 192 + 2 * 192  # and segments, and their norm
    outer = 30522 * 768 + (768 * 192 + 192) + (384 * 768 + 768 + 2 * 768) + 30522
    assert noise.num_parameters() == 2 * (12 * layer + positions) + outer


def test_a_width_that_heads_do_not_divide_is_refused():
    for architecture in SHAPES:
        with pytest.raises(LexergyError, match="heads of an equal"):
            ElectricModel.from_shape(BodyShape(VOCAB, 18, 2, 4, 16, architecture), seed=0)
    with pytest.raises(LexergyError, match="expected 'eurobert' or 'bert'"):
        ElectricModel.from_shape(BodyShape(VOCAB, 16, 2, 4, 16, "gpt"), seed=0)


def test_embeddings_start_long_enough_to_be_heard(shape):
    """A token's vector has a length of about 1 where no norm follows, and the way into a narrower tower keeps it."""
    wide = replace(shape, vocab_size=500, hidden_size=64)
    electric, towers = ElectricModel.from_shape(wide, 1), TwoTowerModel.from_shape(wide, 2, embedding_size=128)
    with torch.no_grad():
        lengths = electric.get_input_embeddings().weight.norm(dim=1).mean().item()
        assert lengths == pytest.approx(1 if shape.architecture == "eurobert" else 0.02 * 8, rel=0.1)
        inside = towers.inwards(towers.embeddings.weight) - towers.inwards.bias
        assert inside.std().item() == pytest.approx(towers.embeddings.weight.std().item(), rel=0.1)


def test_neighbours_are_compared_by_hand(shape, tokens):
    model = ElectricModel.from_shape(shape, seed=1, neighbours=True).eval()
    plain = ElectricModel.from_shape(shape, seed=2).eval()
    plain.load_state_dict(model.state_dict(), strict=False)
    with torch.no_grad():
        torch.testing.assert_close(model(tokens).energies, plain(tokens).energies)  # the vectors start at 0
        model.neighbours.vectors.weight.normal_(generator=torch.Generator().manual_seed(0))
        found = plain(tokens).energies - model(tokens).energies  # (B, L)
        states, term = plain(tokens).last_hidden_state, model.neighbours
        for row in range(len(tokens)):
            for place in range(LENGTH):
                left = states[row, place - 1] if place > 0 else torch.zeros(16)
                right = states[row, place + 1] if place + 1 < LENGTH else torch.zeros(16)
                beside = term.sides.weight @ torch.cat([left, right])
                expected = term.vectors.weight[tokens[row, place]] @ beside
                assert found[row, place].item() == pytest.approx(expected.item(), abs=1e-4)


def test_a_residual_energy_starts_as_its_noise_and_has_no_law_of_its_own(shape, tokens):
    model = ElectricModel.from_shape(shape, seed=1, residual=True).eval()
    assert model(tokens).energies.abs().max().item() < 0.3
    with pytest.raises(LexergyError, match="noise's distribution"):
        model.log_partition(tokens[0], 3)
