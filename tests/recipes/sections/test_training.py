import pytest
from pydantic import ValidationError

from lexergy.training.schedule import learning_rate_at
from toys.training import toy_config


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ("cosine", [0.5, 1.0, 1.0, 0.75, 0.25]),
        ("linear", [0.5, 1.0, 1.0, 2 / 3, 1 / 3]),
        ("constant", [0.5, 1.0, 1.0, 1.0, 1.0]),
    ],
)
def test_rate_climbs_then_falls(schedule, expected):
    config = toy_config(learning_rate=2.0, warmup_steps=2, max_steps=5, schedule=schedule)
    assert [learning_rate_at(config, step) / 2 for step in range(5)] == pytest.approx(expected)


def test_warmup_may_be_the_whole_training():
    config = toy_config(learning_rate=1.0, warmup_steps=2, max_steps=2)
    assert [learning_rate_at(config, step) for step in range(2)] == [0.5, 1.0]


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"learning_rate": 0}, "learning_rate"),
        ({"learning_rate": float("nan")}, "learning_rate"),
        ({"batch_size": 0}, "batch_size"),
        ({"warmup_steps": 31}, "warmup_steps"),
        ({"schedule": "step"}, "schedule"),
        ({"adam_betas": (0.9, 1.0)}, "adam_betas"),
        ({"learning_rat": 1.0}, "learning_rat"),
        ({"seed": -1}, "seed"),
    ],
)
def test_a_mistake_names_its_key(changes, key):
    with pytest.raises(ValidationError, match=key):
        toy_config(**changes)
