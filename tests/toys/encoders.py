import json

import pytest

from lexergy.models.architectures.scratch import build_masked_lm
from lexergy.models.cloze import ElectricModel, TwoTowerModel
from lexergy.models.cloze.bodies import BodyShape
from lexergy.models.loading.tokenizer import train_tokenizer
from toys.finetuning import COLOURS, WORDS, labelled_texts

MAX_LENGTH = 24


@pytest.fixture(scope="session")
def encoders(tmp_path_factory):
    """Tiny untrained models as `lexergy pretrain` leaves them, by kind."""
    folder = tmp_path_factory.mktemp("encoders")
    tokenizer = train_tokenizer([" ".join([*WORDS, *COLOURS, "which colour"])] * 3, 340, folder / "bpe", spoken=True)
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
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("labelled")
    for name, count, seed in (("train", 96, 0), ("test", 16, 1)):
        lines = [json.dumps(record) for record in labelled_texts(count, seed)]
        (folder / f"{name}.jsonl").write_text("\n".join(lines))
    return folder
