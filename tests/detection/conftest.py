"""A tiny LM, a tiny encoder, and texts that people and a machine write from the same openings."""

import json

import pytest
import torch
from detection_toy import MACHINE, PEOPLE, SHARED, written
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

from lexergy.models.causal_lm import CausalLM
from lexergy.models.detection import Detector
from lexergy.models.detection.detector import DetectorSettings
from lexergy.models.detection.readers import EncoderReader, StatesReader
from lexergy.models.energies import StatesEnergy, TransformerEnergy
from lexergy.models.scratch import build_causal_lm
from lexergy.models.tokenizer import train_tokenizer


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
    letters = [chr(code) for code in range(ord("a"), ord("z") + 1)]
    words = sorted({*PEOPLE, *MACHINE, *SHARED} - set(letters))
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", *words, *letters, *(f"##{a}" for a in letters)]
    tokenizer = Tokenizer(models.WordPiece({piece: i for i, piece in enumerate(pieces)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]"
    ).save_pretrained(folder)
    config = BertConfig(
        vocab_size=len(pieces),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=40,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        BertModel(config).save_pretrained(folder)
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
