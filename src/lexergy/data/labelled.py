"""Labelled texts and questions: JSONL, CSV and SQuAD files, and the tasks of GLUE and SQuAD by name."""

import csv
import io
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from lexergy.data.corpora import read_parquet
from lexergy.data.reading import LONGEST_CELL, hub_dataset, numbered_lines, read_object, read_text
from lexergy.errors import LexergyError


class Fields(NamedTuple):
    """Which fields of a record hold the text, its pair and its label; a predicted file needs no label."""

    text: str = "text"
    pair: str | None = None
    label: str | None = "label"


@dataclass(frozen=True)
class LabelledText:
    place: str
    text: str
    pair: str | None
    label: str | None

    @property
    def number(self) -> float:
        """The label of a regression."""
        try:
            value = float(self.label or "")
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise LexergyError(f"{self.place}: the label is {self.label!r}; expected a number for a regression.")
        return value


class Span(NamedTuple):
    """An answer: the characters start .. start + len(text) - 1 of a context."""

    text: str
    start: int


@dataclass(frozen=True)
class Question:
    """A question about a context; without answers it cannot be answered from it."""

    place: str
    id: str
    question: str
    context: str
    answers: tuple[Span, ...]


HUB = "glue"
TASKS = f"`{HUB}:rte:train` or `squad:train`"
HUB_REMEDY = "fetch it where the Hub can be reached, and give it as a JSONL or CSV file"
GLUE_NAME = "nyu-mll/glue"
GLUE = {  # fields of the text and of its pair
    "cola": ("sentence", None),
    "sst2": ("sentence", None),
    "mrpc": ("sentence1", "sentence2"),
    "stsb": ("sentence1", "sentence2"),
    "qqp": ("question1", "question2"),
    "mnli": ("premise", "hypothesis"),
    "qnli": ("question", "sentence"),
    "rte": ("sentence1", "sentence2"),
}
SQUAD = {"squad": "rajpurkar/squad", "squad_v2": "rajpurkar/squad_v2"}


def load_labelled(source: str, fields: Fields) -> list[LabelledText]:
    """Texts, or pairs, with their labels, from a JSONL, CSV or TSV file, or `glue:TASK:SPLIT`."""
    if source.startswith(f"{HUB}:"):
        return _glue(source)
    texts = []
    for place, record in read_records(source, TASKS):
        label = None if fields.label is None else _string(record, fields.label, place)
        pair = None if fields.pair is None else _string(record, fields.pair, place)
        text = _string(record, fields.text, place)
        if not text.strip():
            raise LexergyError(f"{place}: the field `{fields.text}` is empty; expected some text.")
        texts.append(LabelledText(place, text, pair, label))
    return _not_empty(texts, source)


def load_questions(source: str) -> list[Question]:
    """Questions from SQuAD's own JSON, from JSONL (context, question, and answer_start with text, or SQuAD's answers),
    or from `squad:SPLIT` and `squad_v2:SPLIT`."""
    name, _, split = source.partition(":")
    if name in SQUAD:
        dataset = hub_dataset(SQUAD[name], split or "train", HUB_REMEDY)
        return [_question(record, f"{source}:{number}") for number, record in enumerate(dataset)]
    if Path(source).suffix == ".json":
        return _not_empty(list(_squad_json(source)), source)
    return _not_empty([_question(record, place) for place, record in read_records(source, TASKS)], source)


def _glue(source: str) -> list[LabelledText]:
    _, _, rest = source.partition(":")
    task, _, split = rest.partition(":")
    if task not in GLUE:
        raise LexergyError(f"GLUE has no task `{task}` here; expected one of: {', '.join(GLUE)}.")
    text, pair = GLUE[task]
    dataset = hub_dataset(f"{GLUE_NAME}:{task}", split or "train", HUB_REMEDY)
    names = getattr(dataset.features["label"], "names", None)
    return [
        LabelledText(
            f"{source}:{number}",
            record[text],
            None if pair is None else record[pair],
            names[record["label"]] if names else str(record["label"]),
        )
        for number, record in enumerate(dataset)
    ]


def read_records(source: str, tasks: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """The records of a JSONL, CSV, TSV or Parquet file, each with its place, `file:line`.

    `tasks` says what could be named instead of a file.
    """
    path = Path(source).expanduser()
    kind = Path(path.stem).suffix if path.suffix == ".gz" else path.suffix
    if path.is_dir():
        raise LexergyError(f"`{source}` is a folder; expected a .jsonl, .csv, .tsv or .parquet file.")
    if not path.is_file():
        raise LexergyError(
            f"The file `{source}` does not exist; check the path{', or name a task as ' + tasks if tasks else ''}."
        )
    if kind == ".parquet":
        rows = read_parquet(path)
        yield from ((f"{source}:{number}", record) for number, record in enumerate(rows, start=1))
        return
    content = read_text(path)
    if kind in (".csv", ".tsv"):
        csv.field_size_limit(LONGEST_CELL)
        yield from _rows(source, csv.DictReader(io.StringIO(content), delimiter="," if kind == ".csv" else "\t"))
    elif kind == ".jsonl":
        for number, line in numbered_lines(content):
            yield f"{source}:{number}", read_object(line, f"{source}:{number}")
    else:
        raise LexergyError(f"The file `{source}` is of an unknown kind; expected .jsonl, .csv, .tsv or .parquet.")


def _rows(source: str, reader: "csv.DictReader[str]") -> Iterator[tuple[str, dict[str, Any]]]:
    try:
        for record in reader:
            place = f"{source}:{reader.line_num}"
            if None in record or None in record.values():
                raise LexergyError(f"{place}: expected {len(reader.fieldnames or [])} columns, as the header has them.")
            yield place, record
    except csv.Error as error:
        raise LexergyError(f"{source}:{reader.line_num + 1}: {error}; expected a table in UTF-8.") from error


def _string(record: dict[str, Any], name: str, place: str) -> str:
    if name not in record:
        raise LexergyError(f"{place}: there is no field `{name}`; expected one of: {', '.join(record)}.")
    value = record[name]
    if not isinstance(value, str | int | float):
        raise LexergyError(f"{place}: the field `{name}` is {value!r}; expected text or a number.")
    return str(value)


def _squad_json(source: str) -> Iterator[Question]:
    content = read_object(read_text(Path(source)), source)
    try:
        for number, article in enumerate(content["data"]):
            for part, paragraph in enumerate(article["paragraphs"]):
                for entry in paragraph["qas"]:
                    place = f"{source}: article {number}, paragraph {part}, question {entry.get('id', '?')}"
                    yield _question({**entry, "context": paragraph["context"]}, place)
    except (KeyError, TypeError, AttributeError) as error:
        raise LexergyError(
            f"{source}: expected SQuAD's form, data > paragraphs > context and qas ({error})."
        ) from error


def _question(record: dict[str, Any], place: str) -> Question:
    context = _string(record, "context", place)
    spans = _answers(record, place)
    for span in spans:
        if not span.text.strip() or context[span.start : span.start + len(span.text)] != span.text:
            raise LexergyError(
                f"{place}: the answer {span.text!r} does not stand at character {span.start} of the context; "
                "expected `answer_start` counted from 0."
            )
    return Question(place, str(record.get("id", place)), _string(record, "question", place), context, spans)


def _answers(record: dict[str, Any], place: str) -> tuple[Span, ...]:
    answers = record.get("answers")
    try:
        if answers is None:
            known = record.get("text") is not None
            return (Span(record["text"], int(record["answer_start"])),) if known else ()
        if isinstance(answers, dict):  # as `datasets` has them
            pairs = zip(answers["text"], answers["answer_start"], strict=True)
            return tuple(Span(text, int(start)) for text, start in pairs)
        return tuple(Span(answer["text"], int(answer["answer_start"])) for answer in answers)
    except (KeyError, TypeError, ValueError) as error:
        raise LexergyError(f"{place}: expected answers with `text` and `answer_start` ({error}).") from error


def _not_empty(entries: list[Any], source: str) -> list[Any]:
    if not entries:
        raise LexergyError(f"The file `{source}` holds no records; expected at least one.")
    return entries
