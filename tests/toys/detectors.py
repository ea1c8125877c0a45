"""A tiny LM, a tiny encoder, and texts that people and a machine write from the same openings."""

import json

import pytest
import torch

from lexergy.models.architectures.scratch import build_causal_lm
from lexergy.models.causal.lm import CausalLM
from lexergy.models.detection import Detector
from lexergy.models.detection.detector import DetectorSettings
from lexergy.models.detection.readers import EncoderReader, StatesReader
from lexergy.models.energies import StatesEnergy, TransformerEnergy
from lexergy.models.loading.tokenizer import train_tokenizer
from lexergy.testing import save_tiny_encoder
from toys.detection import MACHINE, PEOPLE, SHARED, written


@pytest.fixture(scope="session")
def lm_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "lm"
    tokenizer = train_tokenizer([" ".join(PEOPLE + MACHINE + SHARED)] * 3, 320, folder)
    model = build_causal_lm(vocab_size=len(tokenizer), hidden_size=16, num_layers=2, num_heads=2, max_length=64, seed=1)
    model.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def encoder_folder(tmp_path_factory):
    """A BERT of 40 positions with a wordpiece per word and letter."""
    folder = tmp_path_factory.mktemp("models") / "encoder"
    save_tiny_encoder(folder, sorted({*PEOPLE, *MACHINE, *SHARED}))
    return folder


@pytest.fixture(scope="session")
def lm(lm_folder):
    return CausalLM.from_pretrained(lm_folder)


def awake(linear, seed=0):
    """Random weights for a head that starts at zero."""
    linear.weight.data.normal_(generator=torch.Generator().manual_seed(seed))
    linear.bias.data.fill_(0.3)


@pytest.fixture
def states_detector(lm):
    energy = StatesEnergy.for_lm(lm, (1, 2), statistics="moments")
    awake(energy.head[-1])
    return Detector(StatesReader(lm, energy), DetectorSettings(block_tokens=24, temperature=2.0))


@pytest.fixture
def encoder_detector(encoder_folder):
    energy = TransformerEnergy.from_encoder(encoder_folder)
    awake(energy.head)
    return Detector(EncoderReader(energy), DetectorSettings(block_tokens=24, temperature=2.0))


@pytest.fixture(params=["states", "encoder"])
def detector(request):
    return request.getfixturevalue(f"{request.param}_detector")


@pytest.fixture(scope="session")
def pairs_file(tmp_path_factory):
    """30 lines with a text by people and one by a machine; the machine's has line breaks and is longer."""
    path = tmp_path_factory.mktemp("texts") / "pairs.jsonl"
    rows = [
        {"human": written(PEOPLE, 2 * n), "machine": written(MACHINE, 2 * n + 1).replace(". ", ".\n\n") + " the end."}
        for n in range(30)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path
