"""Results without what is different each time."""

from typing import Any

VARYING = (
    *("seconds", "attempts", "measuring_seconds", "train_seconds", "hypotheses_per_second"),
    "qualifying_code",  # by lot
    "files",  # with their sizes: that of a file with times varies
)


def timeless(value: Any) -> Any:
    """JSON without times, at any depth."""
    if isinstance(value, dict):
        return {key: timeless(inner) for key, inner in value.items() if key not in VARYING}
    return [timeless(inner) for inner in value] if isinstance(value, list) else value
