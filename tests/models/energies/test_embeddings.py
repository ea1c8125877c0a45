import pytest
import torch
from transformers import AutoModel, AutoTokenizer

from lexergy.models.energies.embeddings import TextEmbedder


def test_a_text_is_the_mean_of_its_states_whoever_is_read_with_it(syllable_encoder_folder):
    texts = ["the cat sat", "a", "the state the state the cat", ""]
    vectors = TextEmbedder(syllable_encoder_folder).embed(texts)
    model, tokenizer = (kind.from_pretrained(syllable_encoder_folder) for kind in (AutoModel, AutoTokenizer))
    for text, vector in zip(texts, vectors, strict=True):
        with torch.no_grad():
            states = model.eval()(**tokenizer(text, return_tensors="pt")).last_hidden_state[0]  # (L, D)
        expected = torch.nn.functional.normalize(states.mean(0), dim=0)
        torch.testing.assert_close(vector, expected, atol=1e-5, rtol=0)
    assert vectors.norm(dim=1).tolist() == pytest.approx([1] * 4)


def test_what_is_too_long_is_cut(syllable_encoder_folder):
    embedder = TextEmbedder(syllable_encoder_folder)
    long, longer = embedder.embed(["the cat " * 19, "the cat " * 30])
    torch.testing.assert_close(long, longer)
