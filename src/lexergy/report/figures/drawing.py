"""How every figure looks: one style, colours that colour-blind readers can tell apart (Okabe-Ito)."""

import base64
import io
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any, ParamSpec

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

BLUE, ORANGE, GREEN, PURPLE, YELLOW, SKY = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"
PALETTE = (BLUE, ORANGE, GREEN, PURPLE, YELLOW, SKY)
INK, FAINT = "#222222", "#8a8a8a"
STYLE: dict[Any, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e6e6e6",
    "xtick.color": INK,
    "ytick.color": INK,
    "text.color": INK,
    "lines.linewidth": 1.8,
    "legend.frameon": False,
    "svg.hashsalt": "lexergy",
}
DOTS_PER_INCH = 150

P = ParamSpec("P")


@dataclass(frozen=True)
class Drawing:
    """A figure on a page, with a title that says what is seen."""

    title: str
    source: str  # data URI
    caption: str = ""


def styled(draw: Callable[P, Figure]) -> Callable[P, Figure]:
    """A function that draws in this style; no global pyplot state is touched."""

    @wraps(draw)
    def drawn(*args: P.args, **kwargs: P.kwargs) -> Figure:
        with rc_context(STYLE):
            return draw(*args, **kwargs)

    return drawn


def new_figure(size: tuple[float, float], count: int = 1) -> tuple[Figure, list[Axes]]:
    """A figure with so many axes side by side."""
    figure = Figure(figsize=size, layout="constrained")
    return figure, list(figure.subplots(1, count, squeeze=False)[0])


def logarithmic_x(axes: Axes, base: int) -> None:
    """A logarithmic axis whose ticks are plain numbers."""
    axes.set_xscale("log", base=base)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())


def svg(figure: Figure) -> str:
    """The same figure gives the same text."""
    output = io.StringIO()
    with rc_context(STYLE):
        FigureCanvasSVG(figure)
        figure.savefig(output, format="svg", metadata={"Date": None}, transparent=True)
    return output.getvalue()


def data_uri(figure: Figure) -> str:
    """A figure as part of a page."""
    return "data:image/svg+xml;base64," + base64.b64encode(svg(figure).encode()).decode("ascii")


def png(figure: Figure) -> bytes:
    """The same figure gives the same bytes."""
    output = io.BytesIO()
    with rc_context(STYLE):
        FigureCanvasAgg(figure)
        figure.savefig(output, format="png", dpi=DOTS_PER_INCH, metadata={"Software": None})
    return output.getvalue()
