"""A small file of every format that is read, and its readers."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet

from lexergy.data.corpora import load_corpus
from lexergy.data.labelled import Fields, load_labelled, load_questions
from lexergy.data.lists.candidates import read_candidate_lists
from lexergy.data.lists.nbest import load_nbest
from lexergy.data.tagging.files import load_tagged
from lexergy.data.texts import read_texts
from lexergy.data.translation.pairs import load_pairs
from lexergy.data.windows import Windows

Reader = Callable[[Path], Any]


class Input(NamedTuple):
    path: Path
    reader: Reader


def texts(path: Path) -> None:
    list(read_texts([str(path)]))


def corpus(path: Path) -> None:
    load_corpus(str(path))


def candidates(path: Path) -> None:
    list(read_candidate_lists(str(path)))


def questions(path: Path) -> None:
    load_questions(str(path))


def labelled(path: Path) -> None:
    load_labelled(str(path), Fields("text", None, "label"))


ROWS = [{"text": "the state of our union", "label": "a", "id": number} for number in range(3)]
QUESTION = {"id": "1", "question": "which?", "answers": [{"text": "red", "answer_start": 2}]}
FILES: dict[str, tuple[str, list[Reader]]] = {
    "texts.jsonl": ("".join(json.dumps(row) + "\n" for row in ROWS), [texts, corpus, labelled]),
    "texts.txt": ("= Title =\n\nthe state\n\n of our union\n", [texts, corpus]),
    "labelled.csv": ('text,label\n"our, union",a\nour state,b\n', [labelled]),
    "lists.jsonl": (
        json.dumps(
            {
                "id": "a",
                "hypotheses": [{"text": "our union", "score": -1.0}, {"text": "our onion", "score": -2.0}],
                "reference": "our union",
            }
        )
        + "\n",
        [load_nbest],
    ),
    "lists.json": (
        json.dumps({"a": {"hyp_1": {"score": -1.0, "text": "our union"}, "ref": "our union"}}),
        [load_nbest],
    ),
    "candidates.jsonl": (json.dumps({"prompt": "our", "candidates": ["union", "state"]}) + "\n", [candidates]),
    "questions.json": (
        json.dumps({"data": [{"paragraphs": [{"context": "a red wall", "qas": [QUESTION]}]}]}),
        [questions],
    ),
    "tagged.conll": ("a\tD\ndog\tN\n\nbarks\tV\n", [load_tagged]),
    "pairs.tsv": ("ein Hund\ta dog\neine Katze\ta cat\n", [load_pairs]),
}


def write_inputs(folder: Path) -> list[Input]:
    """The files, once for each of their readers."""
    folder.mkdir(exist_ok=True)
    for name, (content, _) in FILES.items():
        (folder / name).write_text(content)
    pyarrow.parquet.write_table(pa.Table.from_pylist(ROWS), folder / "texts.parquet")
    readers = {name: own for name, (_, own) in FILES.items()} | {"texts.parquet": [texts, corpus, Windows.load]}
    return [Input(folder / name, reader) for name, own in readers.items() for reader in own]
