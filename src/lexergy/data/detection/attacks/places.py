"""Which places of a text an attack changes."""

import re
from collections.abc import Callable, Sequence

import numpy as np

from lexergy.errors import LexergyError

WORD = re.compile(r"[A-Za-z]+")
LONG_WORD = re.compile(r"[A-Za-z]{4,}")


def check_strength(strength: float) -> None:
    if not 0 <= strength <= 1:
        raise LexergyError(f"`strength` is {strength:g}; expected a share of the places, from 0 to 1.")


def chosen(count: int, strength: float, generator: np.random.Generator) -> list[int]:
    """Of `count` places the share `strength`, at least one where it is above 0, in order."""
    check_strength(strength)
    wanted = 0 if strength == 0 else max(1, round(strength * count))
    return sorted(generator.permutation(count)[: min(wanted, count)].tolist())


def replaced(
    text: str,
    places: Sequence[tuple[int, int]],  # characters first .. last - 1, in order
    strength: float,
    seed: int,
    change: Callable[[str, np.random.Generator], str],
) -> str:
    """The text with the share `strength` of some places changed."""
    generator = np.random.default_rng(seed)
    parts, end = [], 0
    for number in chosen(len(places), strength, generator):
        first, last = places[number]
        parts += [text[end:first], change(text[first:last], generator)]
        end = last
    return "".join([*parts, text[end:]])


def matches(pattern: "re.Pattern[str]", text: str) -> list[tuple[int, int]]:
    return [match.span() for match in pattern.finditer(text)]
