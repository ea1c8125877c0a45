"""Where the sentences of a text begin and end, and texts made of two writers' sentences."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

import numpy as np

from lexergy.data.detection.attacks.places import check_strength

Characters = tuple[int, int]
"""first .. last - 1 of a text."""

_END = re.compile(r"[.!?…][\"'”’)\]]*(?=\s+[^a-z\s]|\s*$)")
_NOT_BLANK = re.compile(r"\S")
_ABBREVIATION = re.compile(r"\b(?:Mr|Mrs|Ms|Dr|Prof|St|Sgt|Maj|Gen|Lt|Col|Capt|Rev|Hon|No|vs|[A-Z])\.$")


def sentences(text: str) -> list[Characters]:
    """The sentences without the blanks between them: each ends at a full stop before a capital, or with the text."""
    ends = [
        match.end()
        for match in _END.finditer(text)
        if not _ABBREVIATION.search(text, max(0, match.end() - 6), match.end())
    ]
    edges = [0, *ends, len(text.rstrip())]
    starts = [_NOT_BLANK.search(text, edge) for edge in edges[:-1]]
    pairs = zip((match.start() if match else len(text) for match in starts), edges[1:], strict=True)
    return [(start, end) for start, end in pairs if start < end]


@dataclass(frozen=True)
class Written:
    """A sentence of a text and who wrote it."""

    start: int
    end: int
    is_machine: bool


@dataclass(frozen=True)
class MixedText:
    """A text of two writers, and who wrote which sentence."""

    text: str
    sentences: tuple[Written, ...]

    @property
    def is_machine_at(self) -> np.ndarray:  # (characters,) double
        """1 where a machine wrote a character, 0 where a person did; NaN between sentences."""
        writers = np.full(len(self.text), np.nan)
        for own in self.sentences:
            writers[own.start : own.end] = own.is_machine
        return writers


def spliced(host: str, guest: str, host_is_machine: bool, strength: float, seed: int) -> MixedText:
    """The share `strength` of the host's sentences, one run of them, replaced by the guest's from the same place on.

    Where the guest has fewer sentences, fewer are replaced. 0 leaves the host's text.
    """
    check_strength(strength)
    own, theirs = ([text[start:end] for start, end in sentences(text)] for text in (host, guest))
    size = min(round(strength * len(own)), len(theirs))
    start = int(np.random.default_rng(seed).integers(len(own) - size + 1))
    first = min(start, len(theirs) - size)
    parts = [*own[:start], *theirs[first : first + size], *own[start + size :]]
    is_machine = [host_is_machine != (start <= place < start + size) for place in range(len(parts))]
    return _joined(parts, is_machine)


def _joined(parts: Sequence[str], is_machine: Sequence[bool]) -> MixedText:
    starts = np.cumsum([0, *(len(part) + 1 for part in parts)]).tolist()
    written = (
        Written(start, start + len(part), machine)
        for part, start, machine in zip(parts, starts, is_machine, strict=False)
    )
    return MixedText(" ".join(parts), tuple(written))


def without_shared_beginning(text: str, beside: str) -> str:
    """The text from its first sentence on that begins after the words with which both begin.

    A machine that goes on from a person's words has not written those.
    """
    pairs = zip(text, beside, strict=False)
    shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    return next((text[start:] for start, _ in sentences(text) if start >= shared), "")
