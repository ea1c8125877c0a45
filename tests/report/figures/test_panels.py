"""What a study's picture shows: its series, intervals, categories and legend."""

import numpy as np
import pytest

from lexergy.core.estimation.findings import Estimate
from lexergy.report.figures.distributions import densities, histogram
from lexergy.report.figures.drawing import BLUE, GREEN, INK, ORANGE
from lexergy.report.figures.panels import draw_panels, panels_figure
from lexergy.report.figures.picture import Panel, Series
from toys.figures import legend, lines


def drawn(panel):
    [axes] = panels_figure((panel,)).axes
    return axes


def error_bar_ends(container):
    """(x, low, high) of each bar."""
    _, _, (bars,) = container
    return [(segment[0][0], segment[0][1], segment[1][1]) for segment in bars.get_segments()]


def test_lines_and_their_bands():
    series = (
        Series("pessimistic", [1, 2, 4], [5.0, 4.0, 3.0], [4.5, 3.5, 2.5], [6.0, 5.0, 4.0]),
        Series("base", [1, 4], [7.0, 7.0]),
    )
    axes = drawn(Panel("samples", "perplexity", series, "a title", log_x=True, reference=6.5))
    assert (axes.get_xlabel(), axes.get_ylabel(), axes.get_title()) == ("samples", "perplexity", "a title")
    assert axes.get_xscale() == "log"
    assert lines(axes) == {"pessimistic": [(1, 5.0), (2, 4.0), (4, 3.0)], "base": [(1, 7.0), (4, 7.0)]}
    assert legend(axes) == {"pessimistic": BLUE.lower(), "base": ORANGE.lower()}
    [band] = axes.collections
    corners = {tuple(corner) for corner in band.get_paths()[0].vertices.tolist()}
    assert corners == {(1, 4.5), (2, 3.5), (4, 2.5), (1, 6.0), (2, 5.0), (4, 4.0)}
    reference = axes.lines[0]
    assert (set(reference.get_ydata()), reference.get_color(), reference.get_linestyle()) == ({6.5}, INK, "--")


def test_points_with_error_bars_side_by_side_in_their_categories():
    people = [Estimate(3.0, 2.0, 5.0), Estimate(6.0, 5.5, 6.25)]
    joint = [Estimate(1.0, 0.5, 1.5), Estimate(2.0, 1.0, 2.5)]
    series = (Series.of("people", range(2), people, "points"), Series.of("joint model", range(2), joint, "points"))
    axes = drawn(Panel("n-grams", "unique (%)", series, categories=("2-grams", "3-grams"), colours="text of"))
    assert axes.get_xticks().tolist() == [0, 1]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["2-grams", "3-grams"]
    assert error_bar_ends(axes.containers[0]) == [(-0.125, 2.0, 5.0), (0.875, 5.5, 6.25)]
    assert error_bar_ends(axes.containers[1]) == [(0.125, 0.5, 1.5), (1.125, 1.0, 2.5)]
    assert [container[0].get_ydata().tolist() for container in axes.containers] == [[3.0, 6.0], [1.0, 2.0]]
    assert [container[0].get_color() for container in axes.containers] == [BLUE, ORANGE]
    assert legend(axes) == {"people": BLUE.lower(), "joint model": ORANGE.lower()}
    assert axes.get_legend().get_title().get_text() == "text of"


def test_an_end_beyond_its_point_has_no_arm():
    axes = drawn(Panel("", "", (Series("", [0], [1.0], [1.5], [2.0], "points"),), categories=("a",)))
    assert error_bar_ends(axes.containers[0]) == [(0, 1.0, 2.0)]
    assert axes.get_legend() is None


def test_many_long_categories_are_turned():
    def rotations(*names):
        panel = Panel("", "", (Series("", range(len(names)), [0.0] * len(names), style="points"),), categories=names)
        return {label.get_rotation() for label in drawn(panel).get_xticklabels()}

    assert rotations("one", "two") == {0}
    assert rotations("a category of many letters", "another of as many letters", "and a third one") == {30}


def test_panels_stand_side_by_side_and_each_starts_with_the_first_colour():
    panels = tuple(Panel("", name, tuple(Series(name, [0, 1], [0.0, 1.0]) for _ in range(3))) for name in "ab")
    figure = panels_figure(panels)
    assert [axes.get_ylabel() for axes in figure.axes] == ["a", "b"]
    assert [[line.get_color() for line in axes.lines] for axes in figure.axes] == [[BLUE, ORANGE, GREEN]] * 2
    assert figure.get_figwidth() == pytest.approx(2 * panels_figure(panels[:1]).get_figwidth())


def test_the_same_panels_give_the_same_picture():
    panel, turned = (Panel("", "", (Series("a", [0, 1], y),)) for y in ([0.0, 1.0], [1.0, 0.0]))
    assert draw_panels((panel,)).startswith(b"\x89PNG")
    assert draw_panels((panel,)) == draw_panels((panel,))
    assert draw_panels((panel,)) != draw_panels((turned,))


def test_histograms_have_common_bins():
    people, machine = histogram({"people": np.array([0.0, 0.0, 1.0, 4.0]), "machine": np.array([4.0])}, 4)
    assert people.x == machine.x == [0.5, 1.5, 2.5, 3.5]
    assert (people.label, people.y) == ("people", [0.5, 0.25, 0.0, 0.25])
    assert (machine.label, machine.y) == ("machine", [0.0, 0.0, 0.0, 1.0])
    assert histogram({"none": np.array([])}, 4)[0].y == [0.0]


def test_densities_are_where_the_values_are():
    values = np.random.default_rng(0).normal(size=400)
    low, high, equal = densities({"low": values, "high": values + 10, "equal": np.full(5, 3.0)})
    assert low.x == high.x
    assert low.x[0] == values.min()
    assert low.x[-1] == (values + 10).max()
    assert low.x[int(np.argmax(low.y))] == pytest.approx(0, abs=1)
    assert high.x[int(np.argmax(high.y))] == pytest.approx(10, abs=1)
    assert set(equal.y) == {0.0}
    [narrow] = densities({"": np.arange(101.0)}, (10, 90))
    assert (narrow.x[0], narrow.x[-1]) == (10, 90)
