"""Disguises of a text undone: letters that look Latin, characters that nobody sees, odd blanks, capitals.

They change every token that a model reads and nothing that a person sees. What is really Cyrillic or Greek, and what
another script needs, stays as it is.
"""

import re
import string
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from typing import NamedTuple

from lexergy.data.detection.casing import recased

# Names and what they look like, from Unicode's confusables (UTS #39): nobody could tell the letters themselves apart.
# Only those that most typefaces draw alike; the alpha of `TGFα` is meant to be one.
_NAMES = {
    "CYRILLIC SMALL": "A a, IE e, O o, ER p, ES c, U y, HA x, DZE s, BYELORUSSIAN-UKRAINIAN I i, JE j, SHHA h, QA q, "
    "WE w, KOMI DE d",
    "CYRILLIC CAPITAL": "A A, VE B, IE E, KA K, EM M, EN H, O O, ER P, ES C, TE T, HA X, DZE S, "
    "BYELORUSSIAN-UKRAINIAN I I, JE J, QA Q, WE W",
    "GREEK SMALL": "OMICRON o",
    "GREEK CAPITAL": "ALPHA A, BETA B, EPSILON E, ZETA Z, ETA H, IOTA I, KAPPA K, MU M, NU N, OMICRON O, RHO P, TAU T, "
    "UPSILON Y, CHI X",
}
LOOK_ALIKES: Mapping[str, str] = {
    unicodedata.lookup(f"{script} LETTER {name}"): latin
    for script, names in _NAMES.items()
    for name, _, latin in (entry.rpartition(" ") for entry in names.split(", "))
}
"""Letters of other scripts, and the Latin ones that they look like."""

_TO_LATIN = str.maketrans(dict(LOOK_ALIKES))
_LATIN, _WITH_LOOK_ALIKES = "LATIN", ("CYRILLIC", "GREEK")
_KEYCAP = "\ufe0f"
_UNSEEN_OUTSIDE_FORMAT = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0") | {
    chr(code)
    for code in range(0xFE00, 0xFE10)  # joiners, fillers and variation selectors
}
_VARIANTS = ("<font>", "<wide>", "<narrow>")  # kinds of decomposition in `unicodedata`
_LIGATURES = frozenset("ﬀﬁﬂﬃﬄﬅﬆ")
_WORD = re.compile(r"(?:[^\W\d_]|[\u0300-\u036f])+")
_USUAL = frozenset(string.whitespace) | {"\u00a0", "\x85"}  # web pages are full of no-break spaces
_BLANKS = re.compile(r"\s+")


@dataclass(frozen=True)
class Normalised:
    """A text without disguises, and how many characters of each kind there were: they are evidence themselves."""

    text: str
    look_alikes: int = 0
    unseen: int = 0
    variants: int = 0
    blanks: int = 0
    capitals: int = 0

    @property
    def disguises(self) -> tuple[str, ...]:
        """What was undone, in words."""
        counts = [(getattr(self, field.name), *_WORDS[field.name]) for field in fields(self) if field.name in _WORDS]
        return tuple(f"{count} {noun}{'' if count == 1 else 's'} {done}" for count, noun, done in counts if count)


_WORDS = {
    "look_alikes": ("look-alike letter", "replaced"),
    "unseen": ("invisible character", "removed"),
    "variants": ("letter variant", "made plain"),
    "blanks": ("unusual blank", "made plain"),
    "capitals": ("word", "put into ordinary capitals"),
}


def normalise(text: str) -> Normalised:
    """The text as people see it, in ordinary letters and blanks; plain prose comes out as it went in.

    Full-width and mathematical letters and ligatures become letters, by Unicode's compatibility
    decomposition (fractions and superscripts do not: 10² is no 102). Format characters go, except behind letters of
    scripts that need them and behind symbols, where they join emoji. In Latin words letters that look Latin become so
    (`LOOK_ALIKES`); a word that holds a letter that no Latin one looks like is somebody's own. All blanks between
    two words become a single one, or an empty line where there was one. Letters are composed (NFC). Capitals are put
    right where they are surely wrong (`casing`).
    """
    plain, variants = _without_variants(text.removeprefix("\ufeff"))
    seen, unseen = _without_unseen(unicodedata.normalize("NFC", plain))
    latin, look_alikes = _without_look_alikes(unicodedata.normalize("NFC", seen))
    composed = unicodedata.normalize("NFC", latin)
    blanks = sum(composed.count(letter) for letter in set(composed) if letter.isspace() and letter not in _USUAL)
    plain_case = recased(_BLANKS.sub(_blank, composed).strip())
    return Normalised(plain_case.text, look_alikes, unseen, variants, blanks, plain_case.words)


def _without_variants(text: str) -> tuple[str, int]:
    if text.isascii():
        return text, 0
    variants = {letter: plain for letter in set(text) if (plain := _plain(letter)) != letter}
    count = sum(text.count(letter) for letter in variants)
    return text.translate({ord(letter): plain for letter, plain in variants.items()}), count


def _plain(letter: str) -> str:
    is_variant = letter in _LIGATURES or unicodedata.decomposition(letter).startswith(_VARIANTS)
    plain = unicodedata.normalize("NFKC", letter)
    return plain if is_variant and plain.isascii() and plain.isalnum() else letter


def _without_unseen(text: str) -> tuple[str, int]:
    if not any(map(_is_unseen, set(text))):
        return text, 0
    kept: list[str] = []
    for letter in text:
        if not _is_unseen(letter) or (kept and _may_follow(letter, kept[-1])):
            kept.append(letter)
    return "".join(kept), len(text) - len(kept)


def _is_unseen(letter: str) -> bool:
    if letter.isascii():
        return not letter.isprintable() and not letter.isspace()
    return unicodedata.category(letter) == "Cf" or letter in _UNSEEN_OUTSIDE_FORMAT


def _may_follow(unseen: str, letter: str) -> bool:
    """After a letter of a script that joins or shapes its letters, an emoji, or what was kept after one."""
    if letter.isascii():
        return unseen == _KEYCAP and letter in "#*0123456789"
    is_apart = letter.isspace() or unicodedata.category(letter).startswith("P")
    return not is_apart and _script(letter) not in (_LATIN, *_WITH_LOOK_ALIKES, "COMBINING")


def _without_look_alikes(text: str) -> tuple[str, int]:
    """Words of Latin letters and look-alikes become Latin.

    A word of look-alikes alone may be a real one (`сор` is Russian for litter). It becomes Latin where the text has
    words of the first kind, and none that is certainly of its script.
    """
    if not set(text) & LOOK_ALIKES.keys():
        return text, 0
    matches = list(_WORD.finditer(text))
    words = [_Word.of(match.group()) for match in matches]
    any_disguised = any(word.has_latin and word.look_alike and not word.certain for word in words)
    certain = {script for word in words for script in word.certain}
    parts, end, count = [], 0, 0
    for match, word in zip(matches, words, strict=True):
        is_disguise = word.has_latin or (any_disguised and not word.look_alike & certain)
        if word.look_alike and not word.certain and is_disguise:
            count += sum(letter in LOOK_ALIKES for letter in match.group())
            parts += [text[end : match.start()], match.group().translate(_TO_LATIN)]
            end = match.end()
    return "".join([*parts, text[end:]]), count


class _Word(NamedTuple):
    has_latin: bool
    look_alike: frozenset[str]  # scripts of letters that look Latin
    certain: frozenset[str]  # scripts of letters that do not

    @classmethod
    def of(cls, word: str) -> "_Word":
        scripts = {letter: _script(letter) for letter in word}
        foreign = {letter: script for letter, script in scripts.items() if script in _WITH_LOOK_ALIKES}
        return cls(
            _LATIN in scripts.values(),
            frozenset(script for letter, script in foreign.items() if letter in LOOK_ALIKES),
            frozenset(script for letter, script in foreign.items() if letter not in LOOK_ALIKES),
        )


@cache
def _script(letter: str) -> str:
    """The first word of its name, which for letters is the script."""
    return unicodedata.name(letter, "").partition(" ")[0]


def _blank(run: "re.Match[str]") -> str:
    return "\n\n" if run.group().count("\n") > 1 else " "
