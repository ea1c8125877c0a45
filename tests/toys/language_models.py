"""Tiny untrained language models, and tokens for them."""

from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from lexergy.models.architectures.scratch import build_causal_lm, build_masked_lm
from lexergy.models.causal.lm import CausalLM
from lexergy.models.loading.tokenizer import train_tokenizer
from toys.texts import MACHINE, PEOPLE, SHARED

BYTE_LM = {"vocab_size": 257, "hidden_size": 16, "num_layers": 2, "num_heads": 2, "max_length": 64}


def byte_tokenizer() -> PreTrainedTokenizerFast:
    """A token per byte, and an end-of-text token."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({character: i for i, character in enumerate(alphabet)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<end>")


def random_tokens(*shape: int, seed: int = 0, vocab_size: int = 256) -> Tensor:
    return torch.randint(vocab_size, shape, generator=torch.Generator().manual_seed(seed))


@pytest.fixture(scope="session")
def byte_lm(tmp_path_factory) -> CausalLM:
    folder = tmp_path_factory.mktemp("models") / "byte_lm"
    build_causal_lm(**BYTE_LM, seed=1).save_pretrained(folder)
    byte_tokenizer().save_pretrained(folder)
    return CausalLM.from_pretrained(folder)


@pytest.fixture(scope="session")
def byte_masked_lm_folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "byte_masked_lm"
    build_masked_lm(**BYTE_LM, seed=2).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def word_lm_folder(tmp_path_factory) -> Path:
    """An LM with tokens for the words of people and of a machine."""
    folder = tmp_path_factory.mktemp("models") / "word_lm"
    tokenizer = train_tokenizer([" ".join(PEOPLE + MACHINE + SHARED)] * 3, 320, folder)
    build_causal_lm(**{**BYTE_LM, "vocab_size": len(tokenizer)}, seed=1).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def word_lm(word_lm_folder) -> CausalLM:
    return CausalLM.from_pretrained(word_lm_folder)
