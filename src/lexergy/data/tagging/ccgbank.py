"""CCGbank (Hockenmaier and Steedman 2007): words with their supertags, from its derivations or from tagged text."""

import re
from collections.abc import Iterator

from lexergy.data.reading import numbered_lines
from lexergy.data.tagging.sentences import TaggedSentence
from lexergy.data.texts import Unreadable

# A leaf of a derivation: <L category modified-POS original-POS word predicate-argument-category>
LEAF = re.compile(r"<L (?P<category>\S+) \S+ \S+ (?P<word>\S+) \S+>")
SECTIONS = {"train": range(2, 22), "validation": range(0, 1), "test": range(23, 24)}  # of the Wall Street Journal


def parse_derivations(text: str, name: str, labelled: bool = True) -> Iterator[TaggedSentence | Unreadable]:
    """The leaves of `.auto` files: a line `ID=wsj_0001.1 ...`, then a derivation in a line.

    `.parg` files list dependencies and hence not every word; they cannot be read.
    """
    for number, line in numbered_lines(text):
        if line.startswith("ID="):
            continue
        place = f"{name}:{number}"
        leaves = list(LEAF.finditer(line))
        if len(leaves) != line.count("<L ") or not leaves:
            yield Unreadable(place, "It is no derivation; expected leaves `<L category POS POS word category>`.")
        else:
            labels = tuple(leaf["category"] for leaf in leaves) if labelled else None
            yield TaggedSentence(place, tuple(leaf["word"] for leaf in leaves), labels)


def parse_supertagged(text: str, name: str, labelled: bool = True) -> Iterator[TaggedSentence | Unreadable]:
    """A sentence per line, its words as `word|POS|category`; lines that begin with `# ` are comments."""
    for number, line in numbered_lines(text):
        if line.startswith("# "):
            continue
        place = f"{name}:{number}"
        pieces = [piece.rsplit("|", 2) for piece in line.split()]
        wrong = next((piece for piece in pieces if len(piece) != 3 or not all(piece)), None)
        if wrong is not None:
            yield Unreadable(place, f"`{'|'.join(wrong)}` is none of `word|POS|category`.")
        else:
            labels = tuple(category for _, _, category in pieces) if labelled else None
            yield TaggedSentence(place, tuple(word for word, _, _ in pieces), labels)
