"""Tiny untrained language models, and tokens for them."""

from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from torch import Tensor
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

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


def tiny_sizes(vocab_size: int, max_length: int, **changes: Any) -> dict[str, Any]:
    """Sizes by the names that most configurations of transformers share."""
    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    return {"vocab_size": vocab_size, "max_position_embeddings": max_length, **sizes, **changes}


def tiny_gpt2(vocab_size: int, max_length: int, *, num_layers: int = 2, **settings: Any) -> GPT2LMHeadModel:
    sizes = {"n_embd": 16, "n_layer": num_layers, "n_head": 2, "n_positions": max_length}
    return GPT2LMHeadModel(GPT2Config(vocab_size=vocab_size, **sizes, **settings))


def tiny_llama(vocab_size: int, max_length: int, **settings: Any) -> LlamaForCausalLM:
    return LlamaForCausalLM(LlamaConfig(**tiny_sizes(vocab_size, max_length, **settings)))


def random_tokens(*shape: int, seed: int = 0, vocab_size: int = 256) -> Tensor:
    return torch.randint(vocab_size, shape, generator=torch.Generator().manual_seed(seed))


@pytest.fixture(scope="session")
def night_tokenizer(tmp_path_factory) -> PreTrainedTokenizerFast:
    """Of spoken text: 270 tokens, among them the words of a dark night."""
    return train_tokenizer(["it was a dark night " * 20], 270, tmp_path_factory.mktemp("night"), spoken=True)


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
