"""What people do to a text so that a detector takes it for theirs: one table, a file for each family.

An attack is a pure function of (text, strength, seed). The strength is the share of the places that it can change
which it does change; 0 leaves the text as it is.
"""

from collections.abc import Callable
from typing import NamedTuple

from lexergy.data.detection.attacks import characters, spelling, whitespace

Attack = Callable[[str, float, int], str]


class TextAttack(NamedTuple):
    """An attack on a text alone."""

    apply: Attack
    strength: float  # unless another is asked for
    places: str  # of what the strength is a share
    is_undone: bool  # by `normalise`, exactly


# Strengths as in RAID (Dugan et al. 2024), where it has the attack.
TEXT_ATTACKS: dict[str, TextAttack] = {
    "homoglyphs": TextAttack(characters.homoglyphs, 1.0, "letters that have a look-alike", True),
    "zero-width": TextAttack(characters.zero_width, 1.0, "places between two letters", True),
    "doubled-blanks": TextAttack(whitespace.doubled, 0.2, "blanks", True),
    "line-breaks": TextAttack(whitespace.line_breaks, 0.2, "blanks", True),
    "no-break-blanks": TextAttack(whitespace.no_break, 0.2, "blanks", True),
    "upper-case": TextAttack(spelling.upper_case, 0.05, "words", False),
    "lower-case": TextAttack(spelling.lower_case, 1.0, "words with a capital", False),
    "neighbouring-keys": TextAttack(spelling.neighbouring_keys, 0.2, "words of four letters or more", False),
    "swapped-letters": TextAttack(spelling.swapped_letters, 0.2, "words of four letters or more", False),
}
