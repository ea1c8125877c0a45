import pytest
import torch
from transformers import (
    BertConfig,
    BertModel,
    ElectraConfig,
    ElectraModel,
    EuroBertConfig,
    EuroBertModel,
    LlamaConfig,
    LlamaModel,
    MPNetConfig,
    MPNetModel,
    RobertaConfig,
    RobertaModel,
)

from lexergy.models.inference import ragged
from lexergy.models.inference.ragged import encoder_states, ragged_states, reads_ragged

SIZES = {
    "vocab_size": 50,
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 48,
    "max_position_embeddings": 40,
}
SPECIAL = {"pad_token_id": 1, "bos_token_id": 2, "eos_token_id": 3}  # within so small a vocabulary
ENCODERS = {
    "bert": lambda: BertModel(BertConfig(**SIZES), add_pooling_layer=False),
    "roberta": lambda: RobertaModel(RobertaConfig(**SIZES), add_pooling_layer=False),
    "electra": lambda: ElectraModel(ElectraConfig(**SIZES, embedding_size=16)),
    "eurobert": lambda: EuroBertModel(EuroBertConfig(**SIZES, **SPECIAL, num_key_value_heads=4)),
}
LENGTHS = [9, 2, 5, 5, 1, 12]


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


def strong(model):
    """Weights so large that a wrong mask or position shows."""
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim > 1:
                weight.mul_(8)
    return model.eval()


def rows_and_mask():
    tokens = torch.randint(4, 50, (len(LENGTHS), max(LENGTHS)))
    attended = torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS).unsqueeze(1)
    return tokens.masked_fill(~attended, 1), attended


@pytest.mark.parametrize("most_tokens", [4, 16, 1024])
@pytest.mark.parametrize("name", ENCODERS)
def test_states_are_those_of_each_row_by_itself(name, most_tokens, monkeypatch):
    monkeypatch.setattr(ragged, "TOKENS_AT_ONCE", most_tokens)
    encoder = strong(ENCODERS[name]())
    tokens, attended = rows_and_mask()
    with torch.no_grad():
        assert reads_ragged(encoder)
        states = encoder_states(encoder, tokens, attended)
        for row, length in enumerate(LENGTHS):
            alone = encoder(input_ids=tokens[row : row + 1, :length]).last_hidden_state[0]
            assert torch.allclose(states[row, :length], alone, atol=1e-4)
        assert torch.isfinite(states).all()


def test_segments_go_with_their_tokens():
    encoder = strong(ENCODERS["bert"]())
    tokens, attended = rows_and_mask()
    kinds = torch.randint(0, 2, tokens.shape)
    with torch.no_grad():
        states = encoder_states(encoder, tokens, attended, kinds)
        plain = encoder(tokens, attention_mask=attended.long(), token_type_ids=kinds).last_hidden_state
    assert torch.allclose(states[attended], plain[attended], atol=1e-4)


def test_a_causal_model_sees_what_is_before_only():
    model = strong(LlamaModel(LlamaConfig(**SIZES, num_key_value_heads=2)))
    rows = [torch.randint(0, 50, (length,)) for length in LENGTHS]
    with torch.no_grad():
        assert not reads_ragged(model)  # as an encoder it is another model, whichever is asked for first
        assert reads_ragged(model, causal=True)
        for row, states in zip(rows, ragged_states(model, rows, causal=True), strict=True):
            assert torch.allclose(states, model(row[None]).last_hidden_state[0], atol=1e-4)


def test_attention_that_is_not_plain_is_read_padded():
    encoder = strong(MPNetModel(MPNetConfig(**SIZES), add_pooling_layer=False))  # positions enter its attention
    tokens, attended = rows_and_mask()
    with torch.no_grad():
        assert not reads_ragged(encoder)
        plain = encoder(tokens, attention_mask=attended.long()).last_hidden_state
        assert torch.allclose(encoder_states(encoder, tokens, attended), plain, atol=1e-4)


def test_training_and_gradients_are_read_padded():
    encoder = strong(ENCODERS["bert"]())
    assert not reads_ragged(encoder)
    with torch.no_grad():
        assert not reads_ragged(encoder.train())


def test_padding_on_the_left_is_read_as_it_is():
    encoder = strong(ENCODERS["bert"]())
    tokens, attended = rows_and_mask()
    attended = attended.flip(1)
    with torch.no_grad():
        plain = encoder(tokens, attention_mask=attended.long()).last_hidden_state
        assert torch.allclose(encoder_states(encoder, tokens, attended)[attended], plain[attended], atol=1e-4)
    assert encoder.config._attn_implementation != "lexergy_ragged"


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_batches_side_by_side_give_the_same_states(threads, monkeypatch):
    model = strong(ENCODERS["bert"]())
    rows = [torch.randint(4, 50, (length,)) for length in LENGTHS]
    before = torch.get_num_threads()
    with torch.inference_mode():
        whole = ragged_states(model, rows)
        monkeypatch.setattr(ragged, "TOKENS_AT_ONCE", 6)
        torch.set_num_threads(threads)
        try:
            parts = ragged_states(model, rows)
            assert torch.get_num_threads() == threads
        finally:
            torch.set_num_threads(before)
    for own, expected in zip(parts, whole, strict=True):
        assert own.is_inference()
        assert torch.allclose(own, expected, atol=1e-4)
