"""n-best lists: utterances with hypotheses, their first-pass scores and a reference."""

import json
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

from lexergy.data.reading import numbered_lines, read_text
from lexergy.errors import LexergyError
from lexergy.files import atomic_write_text

Item = TypeVar("Item")
_LIBRISPEECH_ID = re.compile(r"(\d+)-\d+-\d+")


@dataclass(frozen=True)
class Hypothesis:
    text: str
    score: float  # of the first pass, a log-probability or the like: higher is better


@dataclass(frozen=True)
class Utterance:
    id: str
    hypotheses: tuple[Hypothesis, ...]
    reference: str | None = None


def load_nbest(path: str | Path) -> list[Utterance]:
    """Read a list in the JSON of mlm-scoring, or JSONL.

    - `.json`: `{"utterance": {"hyp_1": {"score": -5.1, "text": "..."}, ..., "ref": "..."}, ...}`;
    - `.jsonl`: a line `{"id": "utterance", "hypotheses": [{"text": "...", "score": -5.1}, ...], "reference": "..."}`.

    The reference may be missing; texts and scores may not.
    """
    path = Path(path)
    if not path.is_file():
        raise LexergyError(f"The n-best list `{path}` does not exist; check the path.")
    text = read_text(path)
    records = _jsonl_records(text, path) if path.suffix == ".jsonl" else _json_records(text, path)
    utterances = [_utterance(id, hypotheses, reference, path) for id, hypotheses, reference in records]
    if not utterances:
        raise LexergyError(f"The n-best list `{path}` holds no utterance.")
    return utterances


def some_of(utterances: list[Item], count: int | None) -> list[Item]:
    """At most `count` of them, at equal distances (None: all)."""
    if count is None or count >= len(utterances):
        return utterances
    return [utterances[index * len(utterances) // count] for index in range(count)]


def speakers_of(utterances: Sequence[Utterance]) -> list[str] | None:
    """Who speaks in each, where all ids are LibriSpeech's speaker-chapter-utterance; else None."""
    matches = [_LIBRISPEECH_ID.fullmatch(utterance.id) for utterance in utterances]
    return [match[1] for match in matches if match] if all(matches) else None


def save_nbest(path: str | Path, utterances: list[Utterance]) -> None:
    """Write a list in the format that its suffix names."""
    path = Path(path)
    if path.suffix == ".jsonl":
        lines = [json.dumps(_jsonl_record(utterance), ensure_ascii=False) for utterance in utterances]
        atomic_write_text(path, "".join(f"{line}\n" for line in lines))
    else:
        content = {utterance.id: _json_record(utterance) for utterance in utterances}
        atomic_write_text(path, json.dumps(content, ensure_ascii=False, indent=2) + "\n")


def _json_records(text: str, path: Path) -> Iterator[tuple[str, list[Any], Any]]:
    content = _parsed(text, f"`{path}`")
    if not isinstance(content, dict):
        raise LexergyError(f"`{path}` holds no JSON object; expected utterances with `hyp_1`, `hyp_2`, ... and `ref`.")
    for id, record in content.items():
        if not isinstance(record, dict):
            raise LexergyError(f"`{path}`, utterance {id}: is no object; expected `hyp_1`, `hyp_2`, ... and `ref`.")
        names = sorted((name for name in record if name.startswith("hyp_")), key=_rank_of)
        yield id, [record[name] for name in names], record.get("ref")


def _rank_of(name: str) -> tuple[float, str]:
    number = name.removeprefix("hyp_")
    # As a float: Python refuses to read whole numbers of more than 4,300 digits.
    return (float(number) if number.isdecimal() else math.inf, name)


def _jsonl_records(text: str, path: Path) -> Iterator[tuple[str, list[Any], Any]]:
    for number, line in numbered_lines(text):
        record = _parsed(line, f"Line {number} of `{path}`")
        if not isinstance(record, dict) or not isinstance(record.get("hypotheses"), list):
            raise LexergyError(f"Line {number} of `{path}` has no list `hypotheses`; expected one object a line.")
        yield str(record.get("id", number)), record["hypotheses"], record.get("reference")


def _parsed(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise LexergyError(f"{where} is no valid JSON ({error}); write or fetch it again.") from error


def _utterance(id: str, hypotheses: list[Any], reference: Any, path: Path) -> Utterance:
    if not hypotheses:
        raise LexergyError(f"`{path}`, utterance {id}: has no hypothesis; expected at least one.")
    if reference is not None and not isinstance(reference, str):
        raise LexergyError(f"`{path}`, utterance {id}: the reference is a {type(reference).__name__}; expected text.")
    checked = tuple(
        _hypothesis(record, f"`{path}`, utterance {id}, hypothesis {n}") for n, record in enumerate(hypotheses, 1)
    )
    return Utterance(id, checked, reference)


def _hypothesis(record: Any, where: str) -> Hypothesis:
    if not isinstance(record, dict) or not isinstance(record.get("text"), str):
        raise LexergyError(f"{where}: has no `text`; expected an object with `text` and `score`.")
    score = record.get("score")
    if isinstance(score, bool) or not isinstance(score, int | float) or score != score:
        raise LexergyError(f"{where}: `score` is {score!r}; expected a number, the first pass's log-score.")
    return Hypothesis(record["text"], float(score))


def _json_record(utterance: Utterance) -> dict[str, Any]:
    hypotheses = {
        f"hyp_{rank}": {"score": hypothesis.score, "text": hypothesis.text}
        for rank, hypothesis in enumerate(utterance.hypotheses, start=1)
    }
    return hypotheses if utterance.reference is None else hypotheses | {"ref": utterance.reference}


def _jsonl_record(utterance: Utterance) -> dict[str, Any]:
    record: dict[str, Any] = {
        "id": utterance.id,
        "hypotheses": [asdict(hypothesis) for hypothesis in utterance.hypotheses],
    }
    return record if utterance.reference is None else record | {"reference": utterance.reference}
