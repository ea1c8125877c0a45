"""What of a text a detector may see: its words, not the way it was stored, wrapped, quoted or cut off."""

import re
import unicodedata

_TYPOGRAPHY = str.maketrans(
    {"‘": "'", "’": "'", "‚": "'", "‛": "'", "“": '"', "”": '"', "„": '"', "«": '"', "»": '"', "‐": "-", "‑": "-"}
    | {"‒": "-", "–": "-", "—": "-", "―": "-", "−": "-"}
)
# Text that was once cut into words: WikiText's `1 @,@ 000`, the Penn Treebank's ``did n't'' and `end .`
_JOINED = (
    (re.compile(r" @([-,.])@ "), r"\1"),
    (re.compile(r"``|''"), '"'),
    (re.compile(r" (n't|'(?:s|re|ve|ll|d|m))\b", re.IGNORECASE), r"\1"),
    (re.compile(r" ([,.;:!?%)\]}])"), r"\1"),
    (re.compile(r"([(\[{]) "), r"\1"),
)
_SENTENCE_END = re.compile(r"[.!?][\"')\]]*(?=\s|$)")


def plain_text(text: str) -> str:
    """The text with one blank between words, plain quotes and dashes, composed characters and no control characters.

    Line breaks, typographic quotes or blanks before commas tell where a file came from, not who wrote it; a
    detector that saw them would learn them first. Both sides of a training and every text it is asked about
    go through here.
    """
    composed = unicodedata.normalize("NFKC", text).translate(_TYPOGRAPHY)
    invisible = {ord(letter): " " for letter in set(composed) if not letter.isprintable() or letter == "\ufffd"}
    words = " ".join(composed.translate(invisible).split())
    for pattern, replacement in _JOINED:
        words = pattern.sub(replacement, words)
    return words


def whole_sentences(text: str) -> str:
    """The text up to its last sentence end, where at least half of it is left.

    Where a text breaks off tells how it was cut (a model's limit, an editor's), not who wrote it.
    """
    ends = [match.end() for match in _SENTENCE_END.finditer(text, len(text) // 2)]
    return text[: ends[-1]] if ends else text
