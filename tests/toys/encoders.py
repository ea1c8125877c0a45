"""Tiny untrained encoders, and files of texts to fine-tune them on."""

import json
from pathlib import Path

import pytest

from lexergy.models.architectures.scratch import build_masked_lm
from lexergy.models.cloze import ElectricModel, TwoTowerModel
from lexergy.models.cloze.bodies import BodyShape
from lexergy.models.loading.tokenizer import train_tokenizer
from lexergy.testing import save_tiny_encoder
from toys.texts import COLOURS, MACHINE, PEOPLE, SHARED, UNION_WORDS, labelled_texts

MAX_LENGTH = 24


@pytest.fixture(scope="session")
def syllable_encoder_folder(tmp_path_factory) -> Path:
    """A BERT of 40 positions whose wordpieces are letters, with a few words and syllables of their own."""
    folder = tmp_path_factory.mktemp("encoders") / "syllables"
    save_tiny_encoder(folder, ["the", "cat", "sat", "state"], num_layers=2)
    return folder


@pytest.fixture(scope="session")
def word_encoder_folder(tmp_path_factory) -> Path:
    """A BERT of 40 positions with a wordpiece per word of people and of a machine, and per letter."""
    folder = tmp_path_factory.mktemp("encoders") / "words"
    save_tiny_encoder(folder, sorted({*PEOPLE, *MACHINE, *SHARED}))
    return folder


@pytest.fixture(scope="session")
def pretrained_encoders(tmp_path_factory) -> Path:
    """Models as `lexergy pretrain` leaves them, by kind."""
    folder = tmp_path_factory.mktemp("encoders")
    texts = [" ".join([*UNION_WORDS, *COLOURS, "which colour"])] * 3
    tokenizer = train_tokenizer(texts, 340, folder / "bpe", spoken=True)
    shape = BodyShape(len(tokenizer), 16, 2, 2, MAX_LENGTH)
    models = {
        "electric": ElectricModel.from_shape(shape, seed=0),
        "electric-bert": ElectricModel.from_shape(BodyShape(len(tokenizer), 16, 2, 2, MAX_LENGTH, "bert"), seed=0),
        "masked-lm": build_masked_lm(len(tokenizer), 16, 2, 2, MAX_LENGTH, seed=0, mask_token=1, pad_token=2),
        "two-tower": TwoTowerModel.from_shape(shape, seed=0),
    }
    for name, model in models.items():
        model.save_pretrained(folder / name)
        tokenizer.save_pretrained(folder / name)
    return folder


@pytest.fixture(scope="session")
def labelled_files(tmp_path_factory) -> Path:
    """train.jsonl and test.jsonl, with labels, numbers, questions and answers."""
    folder = tmp_path_factory.mktemp("labelled")
    for name, count, seed in (("train", 96, 0), ("test", 16, 1)):
        lines = [json.dumps(record) for record in labelled_texts(count, seed)]
        (folder / f"{name}.jsonl").write_text("\n".join(lines))
    return folder
