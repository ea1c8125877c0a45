"""Numbers as people read them: a dash where there is none, ∞ where it is infinite."""

import math

ROUNDING_ERROR = 1e-12


def fixed(value: float, digits: int = 2) -> str:
    """With so many decimals."""
    return f"{value:.{digits}f}" if math.isfinite(value) else _not_finite(value)


def significant(value: float) -> str:
    """Four significant digits; 0 where there is only a rounding error."""
    if not math.isfinite(value):
        return _not_finite(value)
    if abs(value) < ROUNDING_ERROR:
        return "0"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:#.4g}"


def percent(share: float, digits: int = 1) -> str:
    return f"{100 * share:.{digits}f} %" if math.isfinite(share) else _not_finite(share)


def duration(seconds: float) -> str:
    """`0.4 s`, `42 s`, `3 min 05 s`."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    if round(seconds) < 60:
        return f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s"


def _not_finite(value: float) -> str:
    if math.isnan(value):
        return "-"
    return "∞" if value > 0 else "-∞"
