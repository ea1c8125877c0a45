"""An LM over bytes, a masked LM over the same tokens, and an encoder of wordpieces."""

from pathlib import Path

import pytest

from lexergy.models.architectures.scratch import build_causal_lm, build_masked_lm
from lexergy.models.causal.lm import CausalLM
from lexergy.testing import save_tiny_encoder
from toys.models import SIZES, byte_tokenizer


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
    save_tiny_encoder(folder, ["the", "cat", "sat", "state"], num_layers=2)
    return folder
