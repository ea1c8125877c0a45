from xml.etree import ElementTree

import numpy as np
import pytest

from lexergy.report import plots


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
    assert plots.format_seconds(seconds) == text


@pytest.mark.parametrize(
    "log_weights",
    [
        np.zeros((3, 8)),
        np.array([[0.0, -np.inf, -np.inf, -1000.0]]),
        np.linspace(-900, 900, 64).reshape(2, 32),
    ],
)
def test_weights_of_any_size_can_be_drawn(log_weights):
    ElementTree.fromstring(plots.sorted_weights(log_weights, ess=2.0))


def test_equal_energies_can_be_drawn():
    ElementTree.fromstring(plots.energy_histogram(np.zeros(4), np.zeros(9)))


def test_bounds_that_are_infinite_can_be_drawn():
    bounds = plots.Bounds([2, 4, 8], [9.0, 9.1, 9.2], [np.inf, 12.0, 10.0])
    ElementTree.fromstring(plots.perplexity_curve(10.0, {"energy": bounds}))


def test_same_numbers_same_figure():
    people, machine = np.arange(9.0), np.arange(20.0)
    assert plots.energy_histogram(people, machine) == plots.energy_histogram(people, machine)
