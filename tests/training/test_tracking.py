"""Trackers, of which TensorBoard's file is read back."""

import struct
from pathlib import Path

import pytest
from pydantic import ValidationError
from tensorboardX.proto.event_pb2 import Event

from lexergy.recipes.sections import training as recipes
from toys.training import toy_config, train_toy


def scalars(folder: Path) -> dict[str, dict[int, float]]:
    """Each name's values by step, from TFRecords: length (8 bytes), its checksum (4), an event, its checksum (4)."""
    values: dict[str, dict[int, float]] = {}
    for path in folder.glob("events.*"):
        content, position = path.read_bytes(), 0
        while position < len(content):
            (length,) = struct.unpack_from("<Q", content, position)
            event = Event.FromString(content[position + 12 : position + 12 + length])
            position += 16 + length
            for value in event.summary.value:
                if value.HasField("simple_value"):
                    values.setdefault(value.tag, {})[event.step] = value.simple_value
    return values


def test_trackers_are_told_what_the_history_says(tmp_path):
    _, result = train_toy(toy_config(trackers=["tensorboard"]), tmp_path / "run" / "states")
    told = scalars(tmp_path / "run" / "trackers" / "run-states")
    losses = {record.step: record.validation["loss"] for record in result.history}
    assert told["validation/loss"] == pytest.approx(losses)
    assert set(told["training/loss"]) == set(range(1, 31))
    first = [told["training/loss"][step] for step in range(1, 8)]
    assert sum(first) / 7 == pytest.approx(result.history[1].loss, abs=1e-6)
    assert told["training/learning_rate"][30] == pytest.approx(result.history[-1].learning_rate)
    # A stage's own files are counted; trackers write beside them.
    assert [path.name for path in (tmp_path / "run" / "states").iterdir()] == ["history.json"]


def test_trackers_decide_no_result(tmp_path):
    """Neither a stage's key nor a checkpoint knows of them."""
    assert toy_config(trackers=["tensorboard"]).model_dump() == toy_config().model_dump()
    _, told = train_toy(toy_config(trackers=["tensorboard"]), tmp_path / "told")
    _, untold = train_toy(toy_config(), tmp_path / "untold")
    assert told == untold


def test_a_tracker_that_is_not_installed_is_told_before_anything_is_done(monkeypatch):
    monkeypatch.setattr(recipes, "find_spec", lambda name: None)
    with pytest.raises(ValidationError, match=r"wandb is not installed.*pip install wandb"):
        toy_config(trackers=["wandb"])
    with pytest.raises(ValidationError, match="tensorboard"):
        toy_config(trackers=["nowhere"])
