"""Texts whose writers are known: records with a label, pairs of a person's and a machine's text, RAID's own files."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from lexergy.data.labelled import read_records
from lexergy.errors import LexergyError

MACHINES = {"machine", "ai", "generated", "fake", "1", "true"}
PEOPLE = {"human", "people", "person", "real", "0", "false"}
DOCUMENT_FIELDS = ("document", "source_id")
RAID_TEXT, RAID_GENERATOR, GENERATOR, FILE = "generation", "model", "generator", "file"


@dataclass(frozen=True)
class EvaluationText:
    """A text, who wrote it, the document that it shares with others, and what else its record says."""

    text: str
    is_machine: bool
    document: str
    columns: dict[str, str]


class EvaluationFields(NamedTuple):
    """Which fields of a record hold the text and its label, or the texts of a person and of a machine."""

    text: str = "text"
    label: str = "label"
    human: str | None = None
    machine: str | None = None
    document: str | None = None


def read_evaluation_texts(sources: Sequence[str], fields: EvaluationFields) -> list[EvaluationText]:
    """The texts of JSONL, CSV, TSV or Parquet files.

    A record has a text and a label (machine or human, 1 or 0), or, with `human` and `machine`, a text of either. One
    with RAID's columns (`generation`, and `model`, which is `human` for people) needs no fields named. Texts of one
    document are resampled together: those of one record, those with the same `document`, or RAID's `source_id`.
    """
    if (fields.human is None) != (fields.machine is None):
        raise LexergyError("one of `--human-field` and `--machine-field` is given; expected both, or neither.")
    texts = [
        text
        for source in sources
        for place, record in read_records(source)
        for text in _texts(record, place, Path(source).name, fields)
        if text.text.strip()
    ]
    if not texts:
        raise LexergyError("there are no texts to evaluate on; expected records with texts of people and of machines.")
    return texts


def _texts(record: dict[str, Any], place: str, file: str, fields: EvaluationFields) -> Iterator[EvaluationText]:
    document = _document(record, place, fields.document)
    is_raid = fields.text not in record and RAID_TEXT in record and RAID_GENERATOR in record
    texts = (RAID_TEXT if is_raid else fields.text, fields.human, fields.machine)
    columns = {
        name: str(value)
        for name, value in record.items()
        if name not in texts and isinstance(value, str | int | float | bool)
    }
    columns[FILE] = file
    if fields.human is not None and fields.machine is not None:
        for name, is_machine in ((fields.human, False), (fields.machine, True)):
            yield EvaluationText(_string(record, name, place), is_machine, document, columns)
    elif is_raid:
        writer = str(record[RAID_GENERATOR])
        named = {**columns, GENERATOR: writer}
        yield EvaluationText(_string(record, RAID_TEXT, place), writer != "human", document, named)
    else:
        if fields.label not in record:
            raise LexergyError(
                f"{place}: there is no field `{fields.label}` that says who wrote the text; expected one of: "
                f"{', '.join(record)}; name it with `--label-field`, or the fields of a pair with `--human-field` and "
                "`--machine-field`."
            )
        is_machine = _is_machine(record, fields.label, place)
        yield EvaluationText(_string(record, fields.text, place), is_machine, document, columns)


def _document(record: dict[str, Any], place: str, field: str | None) -> str:
    if field is not None:
        return str(_value(record, field, place))
    return next((str(record[name]) for name in DOCUMENT_FIELDS if record.get(name) is not None), place)


def _is_machine(record: dict[str, Any], field: str, place: str) -> bool:
    label = str(_value(record, field, place)).strip().lower()
    if label not in MACHINES | PEOPLE:
        raise LexergyError(
            f"{place}: the label is `{label}`; expected one of {', '.join(sorted(MACHINES))} for a machine's text, "
            f"of {', '.join(sorted(PEOPLE))} for a person's."
        )
    return label in MACHINES


def _string(record: dict[str, Any], field: str, place: str) -> str:
    value = _value(record, field, place)
    if not isinstance(value, str):
        raise LexergyError(f"{place}: the field `{field}` holds {type(value).__name__}; expected text.")
    return value


def _value(record: dict[str, Any], field: str, place: str) -> Any:
    if field not in record:
        raise LexergyError(f"{place}: there is no field `{field}`; expected one of: {', '.join(record)}.")
    return record[field]
