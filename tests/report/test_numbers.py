import math

import pytest

from lexergy.report.numbers import duration, fixed, percent, significant


@pytest.mark.parametrize(
    ("value", "text"),
    [(11.5, "11.50"), (0.030668, "0.03067"), (123456.7, "123,457"), (-1234.5, "-1,234"), (-1.7e-16, "0")],
)
def test_four_digits_count(value, text):
    assert significant(value) == text


def test_decimals():
    assert (fixed(2.345), fixed(2.345, 1), fixed(-0.5, 0)) == ("2.35", "2.3", "-0")
    assert (percent(0.0714, 2), percent(0.5)) == ("7.14 %", "50.0 %")


@pytest.mark.parametrize("show", [fixed, significant, percent])
def test_what_is_no_number(show):
    assert [show(value) for value in (math.nan, math.inf, -math.inf)] == ["-", "∞", "-∞"]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.04, "0.0 s"),
        (9.94, "9.9 s"),
        (42.4, "42 s"),
        (59.7, "1 min 00 s"),
        (60, "1 min 00 s"),
        (185, "3 min 05 s"),
    ],
)
def test_seconds_for_people(seconds, text):
    assert duration(seconds) == text
