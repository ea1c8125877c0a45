"""Texts of people and of machines to train a detector on: who wrote them, and which belong together."""

import re
from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from lexergy.data.corpora import Document, load_corpus
from lexergy.data.detection.plain_text import plain_text
from lexergy.data.folder import locate
from lexergy.data.splits import split_documents
from lexergy.errors import LexergyError

OPENING_WORDS = 8  # texts that begin with the same words were written from the same prompt
OPENING_CHARACTERS = 1000  # more than enough for them


@dataclass(frozen=True)
class Example:
    """A text as it was stored; examples of one group stay on one side of a split."""

    text: str
    is_machine: bool
    source: str  # the corpus it is from
    group: str


@dataclass(frozen=True)
class ExampleSplits:
    train: list[Example]
    validation: list[Example]
    test: list[Example]


def load_examples(
    human: Sequence[str], machine: Sequence[str], *, human_field: str = "text", machine_field: str = "text"
) -> list[Example]:
    """The documents of corpora (see `load_corpus`) by people and by machines.

    One JSONL file may be both: `human_field` and `machine_field` then name its two fields, and the two texts of a
    line are one group. Texts that begin with the same words are one group too.
    """
    rows = [
        (document, source, is_machine)
        for sources, field, is_machine in ((human, human_field, False), (machine, machine_field, True))
        for source in sources
        for document in load_corpus(source, text_field=field)
    ]
    places = [f"{_location(source)} {document.group}" for document, source, _ in rows]
    openings = [_opening(document.text) for document, _, _ in rows]
    return [
        Example(document.text, is_machine, source, group)
        for (document, source, is_machine), group in zip(rows, joined_groups(places, openings), strict=True)
    ]


def joined_groups(*keys: Sequence[Hashable]) -> list[str]:
    """Groups of items that share a value of any key, or are linked by others that do: N items each -> N names."""
    size = len(keys[0])
    links: list[tuple[int, int]] = []
    for key in keys:
        first: dict[Hashable, int] = {}
        links += [(first.setdefault(value, index), index) for index, value in enumerate(key)]
    ends = np.array(links, dtype=np.int64).reshape(-1, 2)
    graph = coo_array((np.ones(len(ends)), (ends[:, 0], ends[:, 1])), shape=(size, size))
    _, component = connected_components(graph, directed=False)
    digits = len(str(size))
    return [f"group {number:0{digits}d}" for number in component]


def split_examples(examples: Sequence[Example], *, validation: float, test: float, seed: int) -> ExampleSplits:
    """Train, validation and test by group, with texts of both kinds in each; a text that is there twice counts once."""
    digits = len(str(len(examples)))
    documents = [Document(f"{index:0{digits}d}", example.text, example.group) for index, example in enumerate(examples)]
    splits = split_documents(documents, validation=validation, test=test, seed=seed)
    parts = {
        name: [examples[int(document.id)] for document in getattr(splits, name)]
        for name in ("train", "validation", "test")
    }
    for name, part in parts.items():
        machines = sum(example.is_machine for example in part)
        if machines in (0, len(part)):
            raise LexergyError(
                f"the {name} share has {len(part) - machines} texts of people and {machines} of machines; expected "
                "some of each; give more texts, or a larger share."
            )
    return ExampleSplits(**parts)


def matched_lengths(lengths: Sequence[int], is_machine: Sequence[bool]) -> list[int]:
    """How long each text may be in training so that length does not tell the classes apart.

    A text at quantile q of its own class is cut to the shorter of both classes' quantiles at q: the lengths then
    have one distribution, min(Q_people(q), Q_machines(q)).
    """
    values, machine = np.asarray(lengths), np.asarray(is_machine, dtype=bool)
    limits = values.copy()
    for own, opposite in ((machine, ~machine), (~machine, machine)):
        places = np.flatnonzero(own)[np.argsort(values[own], kind="stable")]  # shortest first
        quantiles = (np.arange(len(places)) + 0.5) / len(places)
        allowed = np.quantile(values[opposite], quantiles, method="inverted_cdf")
        limits[places] = np.minimum(values[places], allowed)
    return limits.tolist()


def _location(source: str) -> str:
    path = locate(source)
    return str(path.resolve()) if path.exists() else source


def _opening(text: str) -> str:
    return " ".join(re.findall(r"\w+", plain_text(text[:OPENING_CHARACTERS]).lower())[:OPENING_WORDS])
