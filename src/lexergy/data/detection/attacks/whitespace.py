"""Blanks that are more, or others, than prose has."""

import re

from lexergy.data.detection.attacks.places import matches, replaced

_BLANK = re.compile(r"(?<=\S) (?=\S)")


def doubled(text: str, strength: float, seed: int) -> str:
    return _instead(text, strength, seed, "  ")


def line_breaks(text: str, strength: float, seed: int) -> str:
    """Lines end within sentences."""
    return _instead(text, strength, seed, "\n")


def no_break(text: str, strength: float, seed: int) -> str:
    """Blanks at which no line may end, which are others to a tokenizer."""
    return _instead(text, strength, seed, "\u00a0")


def _instead(text: str, strength: float, seed: int, blanks: str) -> str:
    return replaced(text, matches(_BLANK, text), strength, seed, lambda *_: blanks)
