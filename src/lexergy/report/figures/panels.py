"""Panels as a figure."""

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from lexergy.report.figures.drawing import INK, PALETTE, logarithmic_x, new_figure, png, styled
from lexergy.report.figures.picture import Panel, Series

PANEL_SIZE = (5.6, 3.4)
CROWDED = 60  # characters of categories that fit below the axis side by side
LABELS_IN_A_ROW = 3
CATEGORY_WIDTH = 0.5  # over which its points are spread


def draw_panels(panels: tuple[Panel, ...]) -> bytes:
    """The panels side by side as PNG; the same panels give the same bytes."""
    return png(panels_figure(panels))


@styled
def panels_figure(panels: tuple[Panel, ...]) -> Figure:
    """The panels side by side."""
    figure, all_axes = new_figure((PANEL_SIZE[0] * len(panels), PANEL_SIZE[1]), len(panels))
    for axes, panel in zip(all_axes, panels, strict=True):
        _draw(axes, panel)
    return figure


def _draw(axes: Axes, panel: Panel) -> None:
    if panel.reference is not None:
        axes.axhline(panel.reference, color=INK, linestyle="--", linewidth=1.3)
    for place, series in enumerate(panel.series):
        colour = PALETTE[place % len(PALETTE)]
        # Points of one category stand side by side.
        shift = (place - (len(panel.series) - 1) / 2) * CATEGORY_WIDTH / len(panel.series) if panel.categories else 0.0
        _draw_series(axes, series, colour, [x + shift for x in series.x])
    if panel.log_x:
        logarithmic_x(axes, base=2)
    if panel.categories:
        crowded = sum(map(len, panel.categories)) > CROWDED
        turned: dict[str, Any] = {"rotation": 30, "ha": "right", "rotation_mode": "anchor"} if crowded else {}
        axes.set_xticks(range(len(panel.categories)), panel.categories, **turned)
    axes.set_xlabel(panel.xlabel)
    axes.set_ylabel(panel.ylabel)
    axes.set_title(panel.title)
    if any(series.label for series in panel.series):
        _name_colours(axes, panel)


def _name_colours(axes: Axes, panel: Panel) -> None:
    title = panel.colours or None
    if panel.categories and not panel.title:  # their points leave no room inside
        columns = min(len(panel.series), LABELS_IN_A_ROW)
        axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=columns, title=title)
    else:
        axes.legend(loc="best", title=title)


def _draw_series(axes: Axes, series: Series, colour: str, x: list[float]) -> None:
    has_band = series.low is not None and series.high is not None
    if series.style == "line":
        axes.plot(x, series.y, color=colour, label=series.label)
        if has_band:
            axes.fill_between(x, series.low, series.high, color=colour, alpha=0.25, linewidth=0)  # type: ignore[arg-type]
        return
    style: dict[str, Any] = {"color": colour, "label": series.label}
    if has_band:
        axes.errorbar(x, series.y, yerr=_arms(series), fmt="o", capsize=4, **style)
    else:
        axes.plot(x, series.y, "o", **style)


def _arms(series: Series) -> list[list[float]]:
    """How far the error bars reach down and up; matplotlib wants no negative ones."""
    assert series.low is not None
    assert series.high is not None
    down = [max(y - low, 0.0) for y, low in zip(series.y, series.low, strict=True)]
    up = [max(high - y, 0.0) for y, high in zip(series.y, series.high, strict=True)]
    return [down, up]
