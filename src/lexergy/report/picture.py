"""A picture as data: what is drawn, not how."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Series:
    """Numbers of one colour. Between `low` and `high` a line has a band, a point an error bar."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None
    style: Literal["line", "points"] = "line"


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
