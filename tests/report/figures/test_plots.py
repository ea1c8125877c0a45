"""What a run's figures show: names, colours, numbers, and their order."""

import numpy as np
import pytest

from lexergy.core.estimation.coverage import RankHistogram
from lexergy.core.estimation.perplexity import CurvePoint
from lexergy.report.figures import plots
from lexergy.report.figures.drawing import BLUE, INK, ORANGE, svg
from toys.figures import legend, lines


def points(*columns) -> tuple[CurvePoint, ...]:
    return tuple(CurvePoint(*values) for values in zip(*columns, strict=True))


def test_both_bounds_against_the_base_lm():
    bounds = {
        "unit": points([2, 4], [12.0, 11.0], [9.0, 9.1], [11.0, 10.5]),
        "bit": points([2, 4], [10.5, 9.5], [8.0, 8.1], [9.5, 9.0]),
    }
    [axes] = plots.perplexity_curve(10.0, bounds).axes
    assert (axes.get_xlabel(), axes.get_ylabel(), axes.get_xscale()) == ("samples per window", "perplexity", "log")
    assert lines(axes) == {
        "unit, at most": [(2, 12.0), (4, 11.0)],
        "bit, at most": [(2, 10.5), (4, 9.5)],
    }
    assert [line.get_color() for line in axes.lines[1:]] == [BLUE, ORANGE]
    assert [band.get_label() for band in axes.collections] == ["unit, estimate", "bit, estimate"]
    base = axes.lines[0]
    assert (base.get_ydata()[0], base.get_color()) == (10.0, INK)
    assert [text.get_text() for text in axes.texts] == ["frozen LM 10.00"]
    low, high = (band.get_paths()[0].get_extents().intervaly.tolist() for band in axes.collections)
    assert (low, high) == ([9.0, 11.0], [8.0, 9.5])


def test_people_are_blue_and_the_lm_is_orange():
    people, machine = np.full(6, -2.0), np.array([3.0, 3.0, 5.0])
    [axes] = plots.energy_histogram(people, machine).axes
    assert axes.get_ylabel() == "density"
    assert axes.get_xlabel() == "energy (low = judged human; lines at the means)"
    assert legend(axes) == {"people": BLUE.lower(), "language model": ORANGE.lower()}
    drawn = {bars[0].get_label(): bars for bars in axes.containers}
    middles = {
        label: [bar.get_x() + bar.get_width() / 2 for bar in bars if bar.get_height() > 0]
        for label, bars in drawn.items()
    }
    assert max(middles["people"]) < min(middles["language model"])
    assert len(middles["language model"]) == 2
    # As densities, so that many samples of the LM do not outweigh a few texts of people.
    assert [sum(bar.get_height() * bar.get_width() for bar in bars) for bars in drawn.values()] == pytest.approx([1, 1])
    means = {line.get_color(): line.get_xdata()[0] for line in axes.lines}
    assert means == {BLUE: -2.0, ORANGE: pytest.approx(11 / 3)}


def test_energies_far_outside_stay_in_the_last_bins():
    people = np.concatenate([np.linspace(0, 1, 999), [1000.0]])
    [axes] = plots.energy_histogram(people, np.linspace(0, 1, 50)).axes
    bars = axes.containers[0]
    assert bars[-1].get_x() + bars[-1].get_width() < 2
    assert sum(bar.get_height() * bar.get_width() for bar in bars) == pytest.approx(1)


def test_equal_energies_can_be_drawn():
    [axes] = plots.energy_histogram(np.zeros(4), np.zeros(9)).axes
    assert all(sum(bar.get_height() > 0 for bar in bars) == 1 for bars in axes.containers)


def test_a_panel_for_each_quantity_of_a_training():
    panels = {
        "loss": {"training": plots.Curve((5, 10), (2.0, 1.0)), "validation": plots.Curve((0, 10), (3.0, 1.5))},
        "accuracy": {"validation": plots.Curve((0, 10), (0.5, 0.75))},
    }
    loss, accuracy = plots.training_curves(panels).axes
    assert (loss.get_ylabel(), accuracy.get_ylabel(), loss.get_xlabel()) == ("loss", "accuracy", "step")
    assert lines(loss) == {"training": [(5, 2.0), (10, 1.0)], "validation": [(0, 3.0), (10, 1.5)]}
    assert lines(accuracy) == {"validation": [(0, 0.5), (10, 0.75)]}
    assert [line.get_color() for line in loss.lines] == [BLUE, ORANGE]


def test_weights_are_sorted_shares_of_each_window():
    log_weights = np.log(np.array([[1.0, 6.0, 3.0], [2.0, 2.0, 16.0], [5.0, 4.0, 1.0]]))
    [axes] = plots.sorted_weights(log_weights, ess=2.0).axes
    shown = lines(axes)
    assert shown["median window"] == [(1, pytest.approx(0.6)), (2, pytest.approx(0.3)), (3, pytest.approx(0.1))]
    assert shown["all equal (1/3)"] == [(0, pytest.approx(1 / 3)), (1, pytest.approx(1 / 3))]
    assert shown["effective samples 2"][0][0] == 2.0
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("rank of the sample's weight", "share of all weight")


@pytest.mark.parametrize(
    ("log_weights", "largest"),
    [
        (np.zeros((3, 8)), 1 / 8),
        (np.array([[0.0, -np.inf, -np.inf, -1000.0]]), 1.0),
        (np.linspace(-900, 900, 64).reshape(2, 32), 1.0),
    ],
)
def test_weights_of_any_size_can_be_drawn(log_weights, largest):
    figure = plots.sorted_weights(log_weights, ess=np.nan)
    shown = lines(figure.axes[0])
    assert shown["median window"][0][1] == pytest.approx(largest)
    assert not any(label.startswith("effective") for label in shown)
    assert svg(figure).rstrip().endswith("</svg>")


def test_bounds_that_are_infinite_can_be_drawn():
    bounds = points([2, 4, 8], [np.inf, 12.0, 10.0], [9.0, 9.1, 9.2], [np.inf, 11.0, 10.0])
    figure = plots.perplexity_curve(10.0, {"energy": bounds})
    assert lines(figure.axes[0])["energy, at most"][1:] == [(4, 12.0), (8, 10.0)]
    assert svg(figure).rstrip().endswith("</svg>")


def test_ranks_beside_what_a_right_model_would_give():
    [axes] = plots.rank_bars(RankHistogram((0.4, 0.3, 0.2, 0.1), (0.1, 0.05, 0.01, 0.2))).axes
    bars, band = axes.containers
    assert [bar.get_height() for bar in bars] == [0.4, 0.3, 0.2, 0.1]
    assert axes.lines[0].get_ydata()[0] == 0.25
    ends = [(bar.get_y(), bar.get_y() + bar.get_height()) for bar in band]
    assert ends[0] == (pytest.approx(0.25 - 0.196), pytest.approx(0.25 + 0.196))
    assert ends[3] == (0, pytest.approx(0.25 + 0.392))  # no share is negative
    assert {"if the joint model were right", "95 % over documents"} == set(legend(axes))


def test_stages_stand_from_top_to_bottom_with_their_times():
    [axes] = plots.stage_seconds(["lm", "energy"], [75.0, 4.2]).axes
    assert [label.get_text() for label in axes.get_yticklabels()] == ["lm", "energy"]
    assert [bar.get_width() for bar in axes.containers[0]] == [75.0, 4.2]
    assert [text.get_text() for text in axes.texts] == ["1 min 15 s", "4.2 s"]
    assert axes.yaxis_inverted()
    assert axes.get_xlabel() == "seconds"


def test_same_numbers_same_figure():
    people, machine = np.arange(9.0), np.arange(20.0)
    first, again, swapped = (
        svg(plots.energy_histogram(*energies)) for energies in ((people, machine), (people, machine), (machine, people))
    )
    assert first == again
    assert first != swapped
