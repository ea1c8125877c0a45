import pytest
import torch
from torch import nn

from lexergy.core.search_aware.step_decoder import teacher_forced
from lexergy.models.seq2seq import Seq2SeqModel, Sources
from lexergy.models.seq2seq.encoder import Encoder
from toys.seq2seq import NUM_CHARACTERS, random_sources, random_symbols, tiny_model, translating

KINDS = {
    "tagger": {},
    "one way": {"bidirectional": False},
    "spelling": {"num_characters": NUM_CHARACTERS, "character_size": 4},
    "global": {"normalisation": "global"},
    "translator": translating(),
}
LENGTHS = (4, 2, 3)


@pytest.fixture(params=KINDS)
def kind(request):
    return KINDS[request.param]


def uniforms(model: Seq2SeqModel, batch: int) -> torch.Tensor:
    return torch.rand(batch, model.num_dropped, generator=torch.Generator().manual_seed(0))


def sources_of(kind: dict, lengths=LENGTHS, size=None) -> Sources:
    return random_sources(lengths, size=size, spelt="num_characters" in kind)


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_one_pass_over_gold_equals_stepping(kind, dropout):
    model = tiny_model(**kind, dropout=dropout)
    decoder = model.decoder(sources_of(kind), uniforms=uniforms(model, 3))
    gold = random_symbols(3, 4)
    assert torch.allclose(decoder.teacher_forced(gold), teacher_forced(decoder, gold), atol=1e-10)


def test_padding_and_batch_size_change_nothing(kind):
    model = tiny_model(**kind)
    gold = random_symbols(3, 4)
    together = sources_of(kind, size=7)
    scores = model.decoder(together).teacher_forced(gold)
    for sentence, length in enumerate(LENGTHS):
        alone = together.select(torch.tensor([sentence]))
        assert alone.features.shape[1] == length
        expected = model.decoder(alone).teacher_forced(gold[sentence : sentence + 1, :length])[0]
        assert torch.allclose(scores[sentence, :length], expected, atol=1e-10)


def test_masks_belong_to_the_sentence(kind):
    """Gold pass, steps and another batch meet the same units; without uniforms there is no dropout at all."""
    model = tiny_model(**kind, dropout=0.5).train()
    sources, gold, drawn = sources_of(kind), random_symbols(3, 4), uniforms(model, 3)
    scores = model.decoder(sources, uniforms=drawn).teacher_forced(gold)
    again = model.decoder(sources.select(torch.tensor([2])), uniforms=drawn[2:]).teacher_forced(gold[2:, :3])
    assert torch.allclose(scores[2, :3], again[0], atol=1e-10)
    without = model.decoder(sources).teacher_forced(gold)
    assert torch.equal(without, model.eval().decoder(sources).teacher_forced(gold))
    assert not torch.allclose(without, scores)


def test_local_scores_are_log_probabilities_and_global_ones_are_not():
    model = tiny_model(normalisation="global")
    gold = random_symbols(3, 4)
    raw = model.decoder(sources_of({})).teacher_forced(gold)
    local = model.decoder(sources_of({}), normalised=True).teacher_forced(gold)
    assert torch.allclose(raw.log_softmax(-1), local, atol=1e-10)
    assert (raw.logsumexp(-1).abs() > 0.01).all()


@pytest.mark.parametrize("bidirectional", [True, False])
def test_a_unidirectional_encoder_knows_nothing_of_what_follows(bidirectional):
    model = tiny_model(bidirectional=bidirectional)
    sources, gold = sources_of({}, (4, 4)), random_symbols(2, 4)
    changed = sources.features.clone()
    changed[:, 3] = (changed[:, 3] + 1) % 5
    before, after = (
        model.decoder(sources._replace(features=words)).teacher_forced(gold) for words in (sources.features, changed)
    )
    assert torch.equal(before[:, :3], after[:, :3]) is not bidirectional
    assert not torch.allclose(before[:, 3], after[:, 3])


def test_the_two_encoders_are_a_bidirectional_lstm():
    encoder = Encoder(3, 5, bidirectional=True).double()
    reference = nn.LSTM(3, 5, batch_first=True, bidirectional=True).double()
    for name, weight in encoder.forwards.named_parameters():
        getattr(reference, name).data = weight.data
        getattr(reference, f"{name}_reverse").data = encoder.backwards.get_parameter(name).data
    vectors, lengths = torch.randn(3, 4, 3, dtype=torch.double), torch.tensor(LENGTHS)
    packed = nn.utils.rnn.pack_padded_sequence(vectors, lengths, batch_first=True, enforce_sorted=False)
    states, (hidden, _) = reference(packed)
    expected, _ = nn.utils.rnn.pad_packed_sequence(states, batch_first=True)
    encoding = encoder(vectors, lengths)
    for sentence, length in enumerate(LENGTHS):
        assert torch.allclose(encoding.states[sentence, :length], expected[sentence, :length])
    assert torch.allclose(encoding.last, torch.cat([hidden[0], hidden[1]], dim=-1))


def test_a_saved_model_is_the_same(tmp_path, kind):
    model = tiny_model(**kind)
    model.save_pretrained(tmp_path)
    loaded = Seq2SeqModel.from_pretrained(tmp_path)
    assert [path.name for path in tmp_path.glob("*.safetensors")] == ["model.safetensors"]
    gold = random_symbols(3, 4)
    scores = (which.decoder(sources_of(kind)).teacher_forced(gold) for which in (model, loaded))
    assert torch.equal(*scores)


def test_initial_weights_depend_on_the_seed_alone():
    first, again, another = tiny_model(seed=1), tiny_model(seed=1), tiny_model(seed=2)
    for name, weight in first.named_parameters():
        assert torch.equal(weight, again.get_parameter(name)), name
        assert not torch.equal(weight, another.get_parameter(name)), name
