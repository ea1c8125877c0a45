"""Figures of a run: perplexity against samples, energies, weights, trainings, and the time that stages took."""

from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import NamedTuple

import numpy as np
from matplotlib.figure import Figure

from lexergy.core.estimation.coverage import RankHistogram
from lexergy.core.estimation.perplexity import CurvePoint
from lexergy.report.figures.drawing import BLUE, INK, ORANGE, PALETTE, SKY, logarithmic_x, new_figure, styled
from lexergy.report.numbers import duration

WIDE, NARROW = (7.2, 3.2), (5.2, 3.2)
NUM_BINS = 24


class Curve(NamedTuple):
    """One quantity of a training, step by step."""

    steps: Sequence[float]
    values: Sequence[float]


@styled
def perplexity_curve(base: float, curves: Mapping[str, Sequence[CurvePoint]], label: str = "frozen LM") -> Figure:
    """Bound and interval of each joint perplexity against the number of samples, under the base LM's line."""
    figure, [axes] = new_figure(WIDE)
    axes.axhline(base, color=INK, linestyle="--", linewidth=1.3)
    axes.annotate(
        f"{label} {base:.2f}",
        (1.0, base),
        xycoords=("axes fraction", "data"),
        xytext=(-4, 4),
        textcoords="offset points",
        ha="right",
        va="bottom",
    )
    for colour, (name, curve) in zip(cycle(PALETTE), curves.items(), strict=False):
        sizes = [point.num_samples for point in curve]
        lower, upper = [point.lower for point in curve], [point.upper for point in curve]
        axes.plot(sizes, [point.bound for point in curve], color=colour, marker="v", label=f"{name}, at most")
        axes.fill_between(sizes, lower, upper, color=colour, alpha=0.25, linewidth=0, label=f"{name}, estimate")
    logarithmic_x(axes, base=2)
    axes.set_xlabel("samples per window")
    axes.set_ylabel("perplexity")
    axes.margins(y=0.14)
    axes.legend(loc="best", ncols=2)
    return figure


@styled
def energy_histogram(people: np.ndarray, machine: np.ndarray) -> Figure:
    """Energies of people's continuations (n,) and of the LM's (m,), each as a density."""
    edges = np.linspace(*_central_range(people, machine), NUM_BINS + 1)
    figure, [axes] = new_figure(NARROW)
    for values, colour, label in ((people, BLUE, "people"), (machine, ORANGE, "language model")):
        clipped = np.clip(values, edges[0], edges[-1])
        axes.hist(clipped, bins=edges.tolist(), density=True, color=colour, alpha=0.45, label=label)
        axes.axvline(float(np.mean(values)), color=colour, linewidth=1.5)
    axes.set_xlabel("energy (low = judged human; lines at the means)")
    axes.set_ylabel("density")
    axes.legend(loc="best")
    return figure


@styled
def rank_bars(histogram: RankHistogram) -> Figure:
    """Where people's text ranks among what the joint model would write: bars, and what a right model would give."""
    figure, [axes] = new_figure(NARROW)
    count = len(histogram.shares)
    middles, expected = (np.arange(count) + 0.5) / count, 1 / count
    reach = 1.96 * np.array(histogram.std_errors)
    axes.bar(middles, histogram.shares, width=0.9 / count, color=SKY)
    axes.axhline(expected, color=INK, linestyle="--", linewidth=1.3, label="if the joint model were right")
    low, high = np.maximum(expected - reach, 0), expected + reach
    axes.bar(middles, high - low, 1 / count, low, color=INK, alpha=0.15, label="95 % over documents")
    axes.set_xlim(0, 1)
    axes.set_xlabel("rank of people's energy (left = lower than the joint model's)")
    axes.set_ylabel("share of windows")
    axes.grid(visible=False, axis="x")
    axes.margins(y=0.35)
    axes.legend(loc="upper right", fontsize=9)
    return figure


@styled
def training_curves(panels: Mapping[str, Mapping[str, Curve]], along: str = "step") -> Figure:
    """One panel per quantity (loss, accuracy), one line per series in it (train, validation)."""
    figure, all_axes = new_figure((3.7 * len(panels), 2.9), len(panels))
    for axes, (quantity, series) in zip(all_axes, panels.items(), strict=True):
        for colour, (label, curve) in zip(cycle(PALETTE), series.items(), strict=False):
            marker = "o" if len(curve.steps) < 30 else None
            axes.plot(curve.steps, curve.values, color=colour, marker=marker, markersize=3, label=label)
        axes.set_xlabel(along)
        axes.set_ylabel(quantity)
        axes.legend(loc="best")
    return figure


@styled
def sorted_weights(log_weights: np.ndarray, ess: float) -> Figure:
    """Normalised importance weights of each window (B, n), largest first: median and spread over windows."""
    shifted = np.exp(log_weights - log_weights.max(axis=-1, keepdims=True))
    weights = np.sort(shifted / shifted.sum(axis=-1, keepdims=True), axis=-1)[:, ::-1]  # (B, n)
    low, middle, high = np.quantile(weights, (0.1, 0.5, 0.9), axis=0)  # (n,) each
    count = weights.shape[-1]
    ranks = np.arange(1, count + 1)
    figure, [axes] = new_figure(NARROW)
    axes.fill_between(ranks, low, high, color=BLUE, alpha=0.2, linewidth=0, label="80 % of windows")
    axes.plot(ranks, middle, color=BLUE, label="median window")
    axes.axhline(1 / count, color=INK, linestyle="--", linewidth=1.2, label=f"all equal (1/{count})")
    if np.isfinite(ess):
        axes.axvline(ess, color=ORANGE, linewidth=1.5, label=f"effective samples {ess:.0f}")
    logarithmic_x(axes, base=10)
    axes.set_yscale("log")
    axes.set_ylim(bottom=max(float(low.min()), 1e-6 / count), top=1.5)
    axes.set_xlabel("rank of the sample's weight")
    axes.set_ylabel("share of all weight")
    axes.legend(loc="lower left", fontsize=9)
    return figure


@styled
def stage_seconds(stages: Sequence[str], seconds: Sequence[float]) -> Figure:
    """Time per stage as horizontal bars, first stage on top."""
    figure, [axes] = new_figure((7.2, 0.6 + 0.32 * len(stages)))
    bars = axes.barh(stages, seconds, color=SKY, height=0.65)
    axes.bar_label(bars, labels=[duration(value) for value in seconds], padding=4)
    axes.invert_yaxis()
    axes.grid(visible=False, axis="y")
    axes.margins(x=0.12)
    axes.set_xlabel("seconds")
    return figure


def _central_range(*groups: np.ndarray) -> tuple[float, float]:
    """Where the energies of every group lie, its farthest half per cent on either side left out."""
    ends = np.array([np.quantile(group, (0.005, 0.995)) for group in groups])  # (groups, 2)
    low, high = float(ends[:, 0].min()), float(ends[:, 1].max())
    return (low, high) if high > low else (low - 0.5, low + 0.5)
