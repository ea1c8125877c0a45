"""Durations as people write them."""

import pytest

from lexergy.recipes.durations import is_duration, seconds_of


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("60m", 3600), ("2h", 7200), ("1.5h", 5400), ("0.5s", 0.5)])
def test_seconds_of_a_duration(text, seconds):
    assert seconds_of(text) == seconds
    assert is_duration(text)


@pytest.mark.parametrize(
    "value", ["", "0m", "-5m", "soon", "60", "60 m", "1e3s", "m", "9999999h", "60m\n", "٣m", 60, None]
)
def test_what_is_no_duration(value):
    assert not is_duration(value)
