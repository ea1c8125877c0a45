"""An LM over bytes, a masked LM over the same tokens, and an encoder of wordpieces."""

from pathlib import Path

import pytest
import torch
from tiny_models import SIZES, byte_tokenizer
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

from lexergy.models.causal_lm import CausalLM
from lexergy.models.scratch import build_causal_lm, build_masked_lm


@pytest.fixture(scope="session")
def lm(tmp_path_factory: pytest.TempPathFactory) -> CausalLM:
    folder = tmp_path_factory.mktemp("runs") / "lm"
    build_causal_lm(**SIZES, seed=1).save_pretrained(folder)
    byte_tokenizer().save_pretrained(folder)
    return CausalLM.from_pretrained(folder)


@pytest.fixture(scope="session")
def masked_lm_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "masked_lm"
    build_masked_lm(**SIZES, seed=2).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def encoder_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BERT of 40 positions whose wordpieces are letters, with a few words and syllables of their own."""
    folder = tmp_path_factory.mktemp("encoders") / "tiny-bert"
    letters = [chr(code) for code in range(ord("a"), ord("z") + 1)]
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "sat", "state", ".", *letters]
    vocabulary = {piece: i for i, piece in enumerate([*pieces, *(f"##{letter}" for letter in letters)])}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]"
    ).save_pretrained(folder)
    config = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=40,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        BertModel(config).save_pretrained(folder)
    return folder
