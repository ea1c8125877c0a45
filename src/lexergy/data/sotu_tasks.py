"""Tasks to fine-tune on, made from the State of the Union addresses and split by year."""

import hashlib
import json
import random
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from lexergy.data.corpora import Document, load_corpus
from lexergy.data.splits import split_documents
from lexergy.files import atomic_path, cache_folder

VERSION = 1  # raised when the files change
SIZES = {"train": 1600, "validation": 400, "test": 800}
ERAS = {"before the Civil War": 1861, "before the World Wars": 1914, "before Vietnam": 1964, "since": 9999}
EXCERPT_WORDS, SENTENCE_WORDS, CONTEXT_WORDS = (20, 35), (6, 16), (25, 45)
SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z])")

Record = dict[str, Any]
Make = Callable[[Document, list[str], random.Random], Iterable[Record]]


def sotu_tasks() -> dict[str, Path]:
    """The files of three kinds of records by name, such as `excerpts-train`, written once into the cache.

    `excerpts`: text, era (4 classes) and year. `sentences`: first, second, and whether the second `follows` the first
    or stands elsewhere in the address. `quotations`: a question that is the first half of a sentence of the context,
    and its answer, the rest of that sentence, in SQuAD's fields.
    """
    folder = cache_folder() / f"sotu-tasks-v{VERSION}"
    if not folder.is_dir():
        splits = split_documents(load_corpus("sotu"), validation=0.1, test=0.2, seed=0)
        with atomic_path(folder) as partial:
            partial.mkdir()
            for kind, make in KINDS.items():
                for split, count in SIZES.items():
                    records = _chosen(getattr(splits, split), make, f"{kind}-{split}", count)
                    (partial / f"{kind}-{split}.jsonl").write_text(
                        "".join(f"{json.dumps(record)}\n" for record in records)
                    )
    return {f"{kind}-{split}": folder / f"{kind}-{split}.jsonl" for kind in KINDS for split in SIZES}


def _chosen(documents: list[Document], make: Make, name: str, count: int) -> list[Record]:
    """So many records, as many of each era as there are, drawn at random from all that the documents give."""
    generator = random.Random(hashlib.sha256(name.encode()).digest())
    by_era: dict[str, list[Record]] = {era: [] for era in ERAS}
    for document in documents:
        sentences = [" ".join(sentence.split()) for sentence in SENTENCE_END.split(document.text)]
        by_era[_era(document)] += make(document, sentences, generator)
    chosen = [
        record
        for records in by_era.values()
        for record in generator.sample(records, min(count // len(ERAS), len(records)))
    ]
    generator.shuffle(chosen)
    return chosen


def _excerpts(document: Document, sentences: list[str], generator: random.Random) -> Iterator[Record]:
    for run in _runs(sentences, *EXCERPT_WORDS):
        yield {"text": " ".join(run), "era": _era(document), "year": int(document.metadata["year"])}


def _sentence_pairs(document: Document, sentences: list[str], generator: random.Random) -> Iterator[Record]:
    fitting = [place for place, sentence in enumerate(sentences) if _has_words(sentence, *SENTENCE_WORDS)]
    known = set(fitting)
    for place in fitting:
        if place + 1 in known and len(fitting) > 2:
            follows = generator.random() < 0.5
            second = place + 1 if follows else place
            while not follows and second in (place, place + 1):
                second = generator.choice(fitting)
            yield {"first": sentences[place], "second": sentences[second], "follows": "yes" if follows else "no"}


def _quotations(document: Document, sentences: list[str], generator: random.Random) -> Iterator[Record]:
    for run in _runs(sentences, *CONTEXT_WORDS):
        fitting = [sentence for sentence in run if _has_words(sentence, *SENTENCE_WORDS)]
        if len(run) > 1 and fitting:
            words = generator.choice(fitting).split()
            context, half = " ".join(run), len(words) // 2
            answer = " ".join(words[half:]).rstrip(".!?")
            start = context.index(" ".join(words)) + len(" ".join(words[:half])) + 1
            yield {"context": context, "question": " ".join(words[:half]), "text": answer, "answer_start": start}


KINDS: dict[str, Make] = {"excerpts": _excerpts, "sentences": _sentence_pairs, "quotations": _quotations}


def _runs(sentences: list[str], least: int, most: int) -> Iterator[list[str]]:
    """Sentences one after the other that have so many words together."""
    run: list[str] = []
    for sentence in sentences:
        run.append(sentence)
        if _has_words(" ".join(run), least, most):
            yield run
        if len(" ".join(run).split()) >= least:
            run = []


def _has_words(text: str, least: int, most: int) -> bool:
    return least <= len(text.split()) <= most


def _era(document: Document) -> str:
    return next(era for era, end in ERAS.items() if int(document.metadata["year"]) < end)
