"""The benchmark of detectors of several readers reads each text once, and gives what the detectors would have read."""

from pathlib import Path

import pytest
import torch

from lexergy.files import hash_of
from lexergy.models.detection.detector import Detector, DetectorSettings
from lexergy.models.detection.readers import StatesReader
from lexergy.models.detection.zero_shot import ZeroShotReader
from lexergy.models.energies import StatesEnergy
from toys.texts import PEOPLE, written

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def detector_readers(monkeypatch):
    monkeypatch.syspath_prepend(BENCHMARKS)
    import detector_readers

    return detector_readers


def test_parts_of_a_text_are_what_its_reader_would_have_read(detector_readers, word_lm, tmp_path, monkeypatch):
    kept = detector_readers.Kept(
        "toy", word_lm, tmp_path / "kept.safetensors", {}, ZeroShotReader(word_lm, "likelihood")
    )
    text = written(PEOPLE, 3)
    monkeypatch.setattr(detector_readers, "BLOCK_TOKENS", 64)
    kept.add([text])
    plain = StatesReader(word_lm, StatesEnergy.for_lm(word_lm, (), statistics="moments"))
    detector = Detector(plain, DetectorSettings(64))
    tokenised = detector.read(text)
    ids = tokenised.piece(detector.blocks_of(tokenised)[0])
    assert len(ids) > 40
    own = detector_readers.KeptReader(kept)
    for part in (ids, ids[:20], ids[9:40]):  # whole, its beginning, and another part
        torch.testing.assert_close(own.features(part), plain.features(part), rtol=1e-4, atol=1e-4)
    assert set(kept.known) == {hash_of(text), hash_of(ids[9:40].tolist())}  # the beginning was not read again
