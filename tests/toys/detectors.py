"""Detectors with random weights, and texts that people and a machine write."""

import json
from pathlib import Path

import pytest

from lexergy.core.detection.calibration import Calibration
from lexergy.models.detection import Detector
from lexergy.models.detection.combined import SumReader
from lexergy.models.detection.conditions import EnergyRange, TrainingConditions
from lexergy.models.detection.detector import DetectorSettings
from lexergy.models.detection.readers import EncoderReader, StatesReader
from lexergy.models.energies import StatesEnergy, TransformerEnergy
from toys.energies import wake
from toys.texts import MACHINE, PEOPLE, written

SETTINGS = DetectorSettings(
    block_tokens=24,
    text=Calibration(slope=0.05, offset=0.1, first=3.0, half_tokens=32.0, power=2),
    span=Calibration(slope=0.02, offset=-0.1, half_tokens=16.0),
    trained_on=TrainingConditions(20, 100, (EnergyRange(8, -500.0, 500.0),), ("people",), ("machines",)),
)


@pytest.fixture
def states_detector(word_lm) -> Detector:
    return make_states_detector(word_lm)


def make_states_detector(word_lm) -> Detector:
    return Detector(StatesReader(word_lm, wake(StatesEnergy.for_lm(word_lm, (1, 2), statistics="moments"))), SETTINGS)


@pytest.fixture
def encoder_detector(word_encoder_folder) -> Detector:
    return Detector(EncoderReader(wake(TransformerEnergy.from_encoder(word_encoder_folder))), SETTINGS)


@pytest.fixture
def combined_detector(states_detector, encoder_detector) -> Detector:
    return Detector(SumReader([states_detector.reader, encoder_detector.reader], [0.5, 2.0]), SETTINGS)


@pytest.fixture(params=["states", "encoder", "combined"])
def detector(request) -> Detector:
    return request.getfixturevalue(f"{request.param}_detector")


@pytest.fixture(scope="session")
def text_pairs_file(tmp_path_factory) -> Path:
    """30 lines with a text by people and one by a machine; the machine's has line breaks and is longer."""
    path = tmp_path_factory.mktemp("texts") / "pairs.jsonl"
    rows = [
        {"human": written(PEOPLE, 2 * n), "machine": written(MACHINE, 2 * n + 1).replace(". ", ".\n\n") + " the end."}
        for n in range(30)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path
