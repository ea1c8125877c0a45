"""Files of tagged sentences: which format they have, and what of them can be read; the rest is named."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

from lexergy.data.folder import locate
from lexergy.data.reading import decode_text, numbered_lines, read_bytes
from lexergy.data.tagging.ccgbank import parse_derivations, parse_supertagged
from lexergy.data.tagging.sentences import TaggedSentence, parse_conll, parse_lines, to_iob2
from lexergy.data.tagging.universal_dependencies import parse_composed
from lexergy.data.texts import Unreadable, named
from lexergy.errors import LexergyError

Format: TypeAlias = Literal["conll", "lines", "composed", "ccgbank", "stagged"]
SUFFIXES: dict[str, Format] = {".auto": "ccgbank", ".stagged": "stagged"}


@dataclass(frozen=True)
class Layout:
    """How a file is to be read.

    - `conll`: a word per line, in columns (`lexergy.data.tagging.sentences.parse_conll`);
    - `lines`: a sentence per line, words, a tab, labels;
    - `composed`: CoNLL-U with labels made of the dependencies (`lexergy.data.tagging.universal_dependencies`);
    - `ccgbank`, `stagged`: derivations of CCGbank, and `word|POS|category` (`lexergy.data.tagging.ccgbank`).

    `format=None`: by the name (.auto, .stagged), else `lines` where whole sentences stand in a line and `conll` where
    words do. `scheme="iob2"` turns labels of entities in IOB1, as CoNLL-2003 was published, into IOB2. Unless
    `labelled`, words are all that is read.
    """

    format: Format | None = None
    word_column: int | None = None
    label_column: int | None = None
    labelled: bool = True
    scheme: Literal["iob2"] | None = None


AS_IT_IS = Layout()


class TaggedFile(NamedTuple):
    """What was read of a file, or of several; `notes` say what was done to it."""

    sentences: list[TaggedSentence]
    unreadable: list[Unreadable]
    notes: list[str]

    def messages(self) -> list[str]:
        """The notes, and a warning that counts what could not be read and names the first few."""
        if not self.unreadable:
            return self.notes
        total = len(self.sentences) + len(self.unreadable)
        return [*self.notes, f"warning: {len(self.unreadable)} of {total} sentences left out: {named(self.unreadable)}"]


def load_tagged(source: str | Path, layout: Layout = AS_IT_IS) -> TaggedFile:
    """The sentences of a file, `.gz` or not, `data:` or not; an error where none can be read.

    A file that is no UTF-8 is read as Latin-1, as CoNLL-2003's German part was published.
    """
    text, notes = _text_of(source)
    parsed = list(_parsed(text, str(source), layout))
    sentences = [entry for entry in parsed if isinstance(entry, TaggedSentence)]
    unreadable = [entry for entry in parsed if isinstance(entry, Unreadable)]
    if not sentences:
        reasons = f": {named(unreadable)}" if unreadable else ""
        raise LexergyError(f"`{source}` holds no sentence that can be read{reasons or '; it is empty.'}")
    if layout.scheme == "iob2":
        sentences, changed = _in_iob2(sentences)
        if changed:
            notes.append(f"{source}: {changed} labels turned from I- to B- (IOB1 to IOB2)")
    return TaggedFile(sentences, unreadable, notes)


def joined(files: Iterable[TaggedFile]) -> TaggedFile:
    """Several files as if they were one."""
    columns = zip(*files, strict=True)
    return TaggedFile(*(list(chain.from_iterable(parts)) for parts in columns))


def _text_of(source: str | Path) -> tuple[str, list[str]]:
    path = locate(source)
    try:
        content = read_bytes(path)
    except OSError as error:
        raise LexergyError(f"`{source}` cannot be read ({error.strerror}); expected a file; check the path.") from None
    try:
        return decode_text(content, f"The file `{path}`"), []
    except LexergyError:
        return content.decode("latin-1").replace("\r\n", "\n"), [f"{source}: read as Latin-1, since it is no UTF-8"]


def _parsed(text: str, name: str, layout: Layout) -> Iterator[TaggedSentence | Unreadable]:
    if "\0" in text:
        raise LexergyError(f"`{name}` holds NUL bytes; expected text, not a binary file.")
    format = layout.format or SUFFIXES.get(Path(name.removesuffix(".gz")).suffix) or _guessed(text, layout.labelled)
    if format == "conll":
        return parse_conll(text, name, layout.labelled, layout.word_column, layout.label_column)
    if format not in PARSERS:
        raise LexergyError(f"the format is {format!r}; expected one of: conll, {', '.join(PARSERS)}.")
    return PARSERS[format](text, name, layout.labelled)


PARSERS: dict[str, Callable[[str, str, bool], Iterator[TaggedSentence | Unreadable]]] = {
    "lines": parse_lines,
    "composed": parse_composed,
    "ccgbank": parse_derivations,
    "stagged": parse_supertagged,
}
"""Of the formats without columns to choose."""


def _guessed(text: str, labelled: bool) -> Format:
    """`lines` where most lines are several words, a tab and labels; or, without labels, where several words to a line
    and no empty line mean that nothing else ends a sentence."""
    lines = [line for _, line in numbered_lines(text)]
    if 2 * sum("\t" in line for line in lines) > len(lines):
        sentences = [line for line in lines if line.count("\t") == 1 and " " in line.split("\t")[0].strip()]
        return "lines" if 2 * len(sentences) > len(lines) else "conll"
    several = 2 * sum(" " in line.strip() for line in lines) > len(lines)
    return "lines" if not labelled and several and "\n\n" not in text.strip() else "conll"


def _in_iob2(sentences: list[TaggedSentence]) -> tuple[list[TaggedSentence], int]:
    """The sentences with labels in IOB2, and how many labels were changed."""
    converted = [
        TaggedSentence(sentence.place, sentence.words, None if sentence.labels is None else to_iob2(sentence.labels))
        for sentence in sentences
    ]
    changed = sum(
        before != after
        for old, new in zip(sentences, converted, strict=True)
        for before, after in zip(old.labels or (), new.labels or (), strict=True)
    )
    return converted, changed
