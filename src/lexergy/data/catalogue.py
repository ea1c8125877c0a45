"""Data that others published, by name: what it holds, under which terms, and where it is or how it is fetched."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from lexergy.data import sotu_tasks
from lexergy.data.folder import locate
from lexergy.data.lists import librispeech
from lexergy.data.tagging import conll2003
from lexergy.data.tagging.splits import UD_EWT
from lexergy.data.translation.words import TATOEBA
from lexergy.errors import LexergyError

FOLDER = "$LEXERGY_DATA"


class PublishedData(NamedTuple):
    """`files` finds the files by their part's name, and fetches them first where `origin` is a package."""

    holds: str
    licence: str
    origin: str
    files: Callable[[], dict[str, Path]]
    terms: str | None = None  # to be told before it is fetched


CATALOGUE = {
    "librispeech-nbest": PublishedData(
        "100-best lists of LibriSpeech (Shin et al. 2019) for `lexergy rescore`: 11,126 utterances in 4 files",
        "CC BY 4.0",
        "PyPI, 23 MB",
        lambda: librispeech.librispeech_nbest(),
    ),
    "sotu-tasks": PublishedData(
        "tasks for `lexergy finetune` made of presidents' addresses and split by year: an excerpt's era and year, "
        "whether a sentence follows another, the rest of a quotation; up to 2,800 records each",
        "public domain",
        "the package sotu",
        lambda: sotu_tasks.sotu_tasks(),
    ),
    "conll2003": PublishedData(
        "English news with names of people, places, organisations and others: 14,041 / 3,250 / 3,453 sentences, 9 "
        "labels in IOB2",
        "Reuters, for research",
        "PyPI, 27 MB",
        lambda: conll2003.conll2003(),
        conll2003.TERMS,
    ),
    "ud-ewt": PublishedData(
        "UD English-EWT, which training reads with labels composed of its dependencies: 12,544 / 2,001 / 2,077 "
        "sentences, 964 labels",
        "CC BY-SA 4.0",
        FOLDER,
        lambda: {part: locate(source) for part, source in UD_EWT.items()},
    ),
    "tatoeba-de-en": PublishedData(
        "sentences of Tatoeba, English, a tab, German: 169,197 pairs in the edition of April 2018",
        "CC BY 2.0",
        FOLDER,
        lambda: {"pairs": locate(TATOEBA)},
    ),
}


def published_data(name: str) -> PublishedData:
    if name not in CATALOGUE:
        raise LexergyError(f"there is no data named `{name}`; expected one of: {', '.join(CATALOGUE)}.")
    return CATALOGUE[name]
