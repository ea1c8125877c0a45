"""A picture as data: what is drawn, not how."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from lexergy.core.estimation.findings import Estimate

Style = Literal["line", "points"]


@dataclass(frozen=True)
class Series:
    """Numbers of one colour. Between `low` and `high` a line has a band, a point an error bar."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None
    style: Style = "line"

    @classmethod
    def of(cls, label: str, x: Sequence[float], estimates: Sequence[Estimate], style: Style = "line") -> "Series":
        """Estimates with their intervals."""
        y, low, high = ([estimate[part] for estimate in estimates] for part in range(3))
        return cls(label, x, y, low, high, style)


@dataclass(frozen=True)
class Panel:
    """Axes with some series on them. With `categories`, x counts them from 0. `colours` says what their labels are."""

    xlabel: str
    ylabel: str
    series: tuple[Series, ...]
    title: str = ""
    categories: tuple[str, ...] = ()
    log_x: bool = False
    reference: float | None = None  # a horizontal line
    colours: str = ""
