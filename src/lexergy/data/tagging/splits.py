"""Training, validation and test sentences: of a set by name, of a folder, of files, or of one file that is split."""

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from lexergy.data.corpora import Document
from lexergy.data.folder import locate
from lexergy.data.splits import split_documents
from lexergy.data.tagging.ccgbank import SECTIONS
from lexergy.data.tagging.conll2003 import conll2003
from lexergy.data.tagging.files import AS_IT_IS, Layout, TaggedFile, joined, load_tagged
from lexergy.errors import LexergyError

UD_EWT = {
    "train": "data:ud_ewt/en_ewt-train.conllu",
    "validation": "data:ud_ewt/en_ewt-dev.conllu",
    "test": "data:ud_ewt/en_ewt-test.conllu",
}
NAMES = {"train": {"train"}, "validation": {"valid", "validation", "dev", "testa"}, "test": {"test", "testb"}}
"""How the files of a folder call the parts: eng.testa, en_ewt-dev.conllu, valid.txt."""


class TaggedSplits(NamedTuple):
    train: TaggedFile
    validation: TaggedFile
    test: TaggedFile

    def messages(self) -> list[str]:
        return [message for part in self for message in part.messages()]


class LabelUse(NamedTuple):
    """How the labels of a part compare with those of the training part, which has never seen `unseen_labels`."""

    sentences: int
    tokens: int
    labels: int
    unseen_labels: int
    unseen_tokens: int


def label_use(splits: TaggedSplits) -> dict[str, LabelUse]:
    """What each part holds, and what of it cannot be predicted since training never met it."""
    counts = {
        part: Counter(label for sentence in file.sentences for label in sentence.labels or ())
        for part, file in splits._asdict().items()
    }
    uses = {}
    for part, count in counts.items():
        unseen = [label for label in count if label not in counts["train"]]
        uses[part] = LabelUse(
            len(getattr(splits, part).sentences),
            count.total(),
            len(count),
            len(unseen),
            sum(count[label] for label in unseen),
        )
    return uses


def load_tagged_splits(
    source: str | Path,
    layout: Layout = AS_IT_IS,
    *,
    validation: str | Path | None = None,
    test: str | Path | None = None,
    share: float = 0.1,
    seed: int = 0,
) -> TaggedSplits:
    """The three parts of tagged data.

    `source` is `conll2003` (fetched), `ud-ewt` (English-EWT below `$LEXERGY_DATA`, with composed labels), a folder with
    files named after the parts, a folder of CCGbank (sections 02-21, 00 and 23), or a file to train on. What a file
    has no `validation` or `test` for is taken from it, a `share` of its sentences each; sentences of the same words
    stay together.
    """
    if source == "conll2003":
        return _parts(conll2003(), layout)
    if source == "ud-ewt":
        return _parts(UD_EWT, replace(layout, format=layout.format or "composed"))
    path = locate(source)
    if path.is_dir():
        sections = next((folder for folder in (path / "AUTO", path / "data" / "AUTO") if folder.is_dir()), None)
        return _ccgbank(sections, layout) if sections else _parts(_files_by_part(path), layout)
    given = {"validation": validation, "test": test}
    held_out = {part: load_tagged(file, layout) for part, file in given.items() if file is not None}
    return _split(load_tagged(source, layout), held_out, share, seed)


def _parts(files: Mapping[str, str | Path], layout: Layout) -> TaggedSplits:
    return TaggedSplits(*(load_tagged(files[part], layout) for part in TaggedSplits._fields))


def _files_by_part(folder: Path) -> dict[str, Path]:
    files: dict[str, list[Path]] = {part: [] for part in NAMES}
    for path in sorted(folder.iterdir()):
        pieces = set(re.split(r"[._-]", path.name.lower()))
        for part, names in NAMES.items():
            if path.is_file() and pieces & names:
                files[part].append(path)
    for part, paths in files.items():
        if len(paths) != 1:
            raise LexergyError(
                f"the folder {folder} holds {len(paths)} files to be taken for {part}; expected one of each part, with "
                f"{' or '.join(sorted(NAMES[part]))} in its name; or give the files one by one."
            )
    return {part: path for part, (path,) in files.items()}


def _ccgbank(folder: Path, layout: Layout) -> TaggedSplits:
    parts = []
    for sections in SECTIONS.values():
        files = [file for section in sections for file in sorted((folder / f"{section:02d}").glob("*.auto"))]
        if not files:
            raise LexergyError(
                f"{folder} has no .auto files in {sections[0]:02d}; expected CCGbank's sections 00 to 23."
            )
        parts.append(joined(load_tagged(file, layout) for file in files))
    return TaggedSplits(*parts)


def _split(file: TaggedFile, held_out: dict[str, TaggedFile], share: float, seed: int) -> TaggedSplits:
    """The parts that are not `held_out` already, taken from the file."""
    if len(held_out) == 2:
        return TaggedSplits(train=file, **held_out)
    documents = [
        Document(id=f"{number:09d}", text=str(number), group=" ".join(sentence.words).casefold())
        for number, sentence in enumerate(file.sentences)
    ]
    splits = split_documents(documents, validation=share, test=share, seed=seed)
    numbers = {
        part: {int(document.text) for document in getattr(splits, part)} for part in NAMES if part not in held_out
    }
    numbers["train"] = set(range(len(documents))).difference(*(numbers[part] for part in numbers if part != "train"))
    parts = {
        part: TaggedFile([file.sentences[number] for number in sorted(chosen)], [], [])
        for part, chosen in numbers.items()
    }
    parts["train"].notes.extend(file.messages())
    return TaggedSplits(**parts, **held_out)
