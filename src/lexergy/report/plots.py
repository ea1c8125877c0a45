"""Figures of a run as SVG text: one style, colours that colour-blind readers can tell apart (Okabe-Ito)."""

import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
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
WIDE, NARROW = (7.2, 3.2), (5.2, 3.2)
NUM_BINS = 24


class Bounds(NamedTuple):
    """Perplexity bounds of one energy against the number of samples (Fig. 2 left, Deng et al. 2020)."""

    num_samples: Sequence[int]
    lower: Sequence[float]
    upper: Sequence[float]


class Curve(NamedTuple):
    """One quantity of a training, step by step."""

    steps: Sequence[float]
    values: Sequence[float]


def perplexity_curve(base: float, bounds: Mapping[str, Bounds]) -> str:
    """The interval of each joint perplexity against the number of samples, over the base LM's line."""
    with _figure(WIDE) as (axes, output):
        axes.axhline(base, color=INK, linestyle="--", linewidth=1.3)
        axes.annotate(
            f"frozen LM {base:.2f}",
            (1.0, base),
            xycoords=("axes fraction", "data"),
            xytext=(-4, 4),
            textcoords="offset points",
            ha="right",
            va="bottom",
        )
        for colour, (name, curve) in zip(_colours(), bounds.items(), strict=False):
            axes.fill_between(curve.num_samples, curve.lower, curve.upper, color=colour, alpha=0.2, linewidth=0)
            axes.plot(curve.num_samples, curve.upper, color=colour, marker="v", label=f"{name}, pessimistic")
            axes.plot(
                curve.num_samples,
                curve.lower,
                color=colour,
                marker="^",
                alpha=0.6,
                label=f"{name}, optimistic",
            )
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.set_xlabel("samples per window")
        axes.set_ylabel("perplexity")
        axes.margins(y=0.14)
        axes.legend(loc="best", ncols=2)
    return output.getvalue()


def energy_histogram(people: np.ndarray, machine: np.ndarray) -> str:
    """Energies of people's continuations (n,) and of the LM's (m,), each as a density."""
    edges = np.linspace(*_central_range(people, machine), NUM_BINS + 1)
    with _figure(NARROW) as (axes, output):
        for values, colour, label in ((people, BLUE, "people"), (machine, ORANGE, "language model")):
            clipped = np.clip(values, edges[0], edges[-1])
            axes.hist(clipped, bins=edges.tolist(), density=True, color=colour, alpha=0.45, label=label)
            axes.axvline(float(np.mean(values)), color=colour, linewidth=1.5)
        axes.set_xlabel("energy (low = judged human; lines at the means)")
        axes.set_ylabel("density")
        axes.legend(loc="best")
    return output.getvalue()


def training_curves(panels: Mapping[str, Mapping[str, Curve]]) -> str:
    """One panel per quantity (loss, accuracy), one line per series in it (train, validation)."""
    with _figures((3.7 * len(panels), 2.9), len(panels)) as (all_axes, output):
        for axes, (quantity, series) in zip(all_axes, panels.items(), strict=True):
            for colour, (label, curve) in zip(_colours(), series.items(), strict=False):
                marker = "o" if len(curve.steps) < 30 else None
                axes.plot(curve.steps, curve.values, color=colour, marker=marker, markersize=3, label=label)
            axes.set_xlabel("step")
            axes.set_ylabel(quantity)
            axes.legend(loc="best")
    return output.getvalue()


def sorted_weights(log_weights: np.ndarray, ess: float) -> str:
    """Normalised importance weights of each window (B, n), largest first: median and spread over windows."""
    shifted = np.exp(log_weights - log_weights.max(axis=-1, keepdims=True))
    weights = np.sort(shifted / shifted.sum(axis=-1, keepdims=True), axis=-1)[:, ::-1]  # (B, n)
    low, middle, high = np.quantile(weights, (0.1, 0.5, 0.9), axis=0)  # (n,) each
    count = weights.shape[-1]
    ranks = np.arange(1, count + 1)
    with _figure(NARROW) as (axes, output):
        axes.fill_between(ranks, low, high, color=BLUE, alpha=0.2, linewidth=0, label="80 % of windows")
        axes.plot(ranks, middle, color=BLUE, label="median window")
        axes.axhline(1 / count, color=INK, linestyle="--", linewidth=1.2, label=f"all equal (1/{count})")
        if np.isfinite(ess):
            axes.axvline(ess, color=ORANGE, linewidth=1.5, label=f"effective samples {ess:.0f}")
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_ylim(bottom=max(float(low.min()), 1e-6 / count), top=1.5)
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.set_xlabel("rank of the sample's weight")
        axes.set_ylabel("share of all weight")
        axes.legend(loc="lower left", fontsize=9)
    return output.getvalue()


def stage_seconds(stages: Sequence[str], seconds: Sequence[float]) -> str:
    """Time per stage as horizontal bars, first stage on top."""
    with _figure((7.2, 0.6 + 0.32 * len(stages))) as (axes, output):
        bars = axes.barh(stages, seconds, color=SKY, height=0.65)
        axes.bar_label(bars, labels=[format_seconds(value) for value in seconds], padding=4)
        axes.invert_yaxis()
        axes.grid(visible=False, axis="y")
        axes.margins(x=0.12)
        axes.set_xlabel("seconds")
    return output.getvalue()


def format_seconds(seconds: float) -> str:
    """`0.4 s`, `42 s`, `3 min 05 s`."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if round(seconds) < 60:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s"


def _central_range(*groups: np.ndarray) -> tuple[float, float]:
    """Where the energies of every group lie, its farthest half per cent on either side left out."""
    ends = np.array([np.quantile(group, (0.005, 0.995)) for group in groups])  # (groups, 2)
    low, high = float(ends[:, 0].min()), float(ends[:, 1].max())
    return (low, high) if high > low else (low - 0.5, low + 0.5)


def _colours() -> Iterator[str]:
    while True:
        yield from PALETTE


@contextmanager
def _figure(size: tuple[float, float]) -> Iterator[tuple[Axes, io.StringIO]]:
    with _figures(size, 1) as (axes, output):
        yield axes[0], output


@contextmanager
def _figures(size: tuple[float, float], count: int) -> Iterator[tuple[list[Axes], io.StringIO]]:
    """Axes to draw on; on leaving, the figure's SVG is in `output`. No global pyplot state is touched."""
    output = io.StringIO()
    with rc_context(STYLE):
        figure = Figure(figsize=size, layout="constrained")
        FigureCanvasSVG(figure)
        axes = figure.subplots(1, count, squeeze=False)[0]
        yield list(axes), output
        for one in axes:
            one.xaxis.set_minor_formatter(NullFormatter())
        figure.savefig(output, format="svg", metadata={"Date": None}, transparent=True)
