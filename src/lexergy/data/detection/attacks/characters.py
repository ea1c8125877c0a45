"""Characters that people do not see, or take for others."""

import re

from lexergy.data.detection.attacks.places import matches, replaced
from lexergy.data.detection.normalisation import LOOK_ALIKES

DISGUISES = {
    latin: letter for letter, latin in reversed(list(LOOK_ALIKES.items()))
}  # Cyrillic where both scripts have one
ZERO_WIDTH = "\u200b"  # RAID's; `normalise` removes every other invisible character alike
_DISGUISABLE = re.compile("[" + "".join(DISGUISES) + "]")
_BETWEEN_LETTERS = re.compile(r"(?<=[A-Za-z])(?=[A-Za-z])")


def homoglyphs(text: str, strength: float, seed: int) -> str:
    """Latin letters become the Cyrillic or Greek ones that look alike."""
    return replaced(text, matches(_DISGUISABLE, text), strength, seed, lambda letter, _: DISGUISES[letter])


def zero_width(text: str, strength: float, seed: int) -> str:
    """Spaces of no width between letters."""
    return replaced(text, matches(_BETWEEN_LETTERS, text), strength, seed, lambda *_: ZERO_WIDTH)
