"""How long something may take, as people write it: `90s`, `60m`, `2h`."""

import re
from typing import Annotated, Any

from pydantic import BeforeValidator

SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0}
WRITTEN = re.compile(r"([0-9]{1,6}(?:\.[0-9]{1,3})?)([smh])")
EXPECTED = "expected a time above 0 in seconds, minutes or hours, as in 90s, 60m or 2h"


def seconds_of(duration: str) -> float:
    """`60m` is 3600; 0 for what is no duration.

    Examples:
        >>> from lexergy.recipes.durations import seconds_of
        >>> seconds_of("1.5h")
        5400.0
    """
    match = WRITTEN.fullmatch(duration)
    return 0.0 if match is None else float(match[1]) * SECONDS[match[2]]


def is_duration(value: Any) -> bool:
    """Whether it is written as one, and above 0."""
    return isinstance(value, str) and seconds_of(value) > 0


def _check(value: Any) -> Any:
    if not is_duration(value):
        raise ValueError(f"{str(value)[:40]!r} is no duration; {EXPECTED}")
    return value


Duration = Annotated[str, BeforeValidator(_check)]
"""Kept as it is written; `seconds_of` reads it."""
