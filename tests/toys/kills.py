"""Work that is interrupted, as by Ctrl-C."""

from collections.abc import Callable
from functools import wraps
from typing import Any


def killed_once(function: Callable, call: int) -> Callable:
    """The function, interrupted when that call (the first is 1) begins; `calls` are the arguments of all of them."""
    calls: list[tuple] = []

    @wraps(function)
    def wrapped(*arguments: Any, **keywords: Any) -> Any:
        calls.append(arguments)
        if len(calls) == call:
            raise KeyboardInterrupt
        return function(*arguments, **keywords)

    wrapped.calls = calls  # type: ignore[attr-defined]
    return wrapped


def killed_when_done(function: Callable) -> Callable:
    """The function, interrupted after each call."""

    @wraps(function)
    def wrapped(*arguments: Any, **keywords: Any) -> Any:
        function(*arguments, **keywords)
        raise KeyboardInterrupt

    return wrapped
