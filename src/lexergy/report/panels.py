"""A study's picture as PNG, in the style of the other figures."""

import io
from typing import Any

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

from lexergy.report.picture import Panel, Series
from lexergy.report.plots import INK, PALETTE, STYLE

PANEL_SIZE = (5.6, 3.4)
DOTS_PER_INCH = 150
CROWDED = 60  # characters of categories that fit below the axis side by side
LABELS_IN_A_ROW = 3
CATEGORY_WIDTH = 0.5  # over which its points are spread


def draw_panels(panels: tuple[Panel, ...]) -> bytes:
    """The panels side by side; the same panels give the same bytes."""
    with rc_context(STYLE):
        figure = Figure(figsize=(PANEL_SIZE[0] * len(panels), PANEL_SIZE[1]), layout="constrained")
        FigureCanvasAgg(figure)
        for axes, panel in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
            _draw(axes, panel)
        output = io.BytesIO()
        figure.savefig(output, format="png", dpi=DOTS_PER_INCH, metadata={"Software": None})
    return output.getvalue()


def _draw(axes: Axes, panel: Panel) -> None:
    if panel.reference is not None:
        axes.axhline(panel.reference, color=INK, linestyle="--", linewidth=1.3)
    for place, series in enumerate(panel.series):
        colour = PALETTE[place % len(PALETTE)]
        # Points of one category stand side by side.
        shift = (place - (len(panel.series) - 1) / 2) * CATEGORY_WIDTH / len(panel.series) if panel.categories else 0.0
        _draw_series(axes, series, colour, [x + shift for x in series.x])
    if panel.log_x:
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.xaxis.set_minor_formatter(NullFormatter())
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
