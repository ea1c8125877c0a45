"""Judge any number of texts into a folder, a shard at a time, wherever the shards are computed.

The texts are first kept in shards; what the detector says of them are shards of the same texts. A command that was
stopped goes on where it was, and no more than a few shards are in memory.
"""

from collections.abc import Iterator
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa

from lexergy.data.texts import PlacedText, Unreadable, text_files
from lexergy.errors import LexergyError
from lexergy.models.detection.detector import Detection, Detector
from lexergy.models.detection.people import Accusation, accuse
from lexergy.runs.fingerprint import content_hash
from lexergy.runs.rows import shards_of, stage_from_rows, stage_of_rows
from lexergy.runs.stages import Stage
from lexergy.runs.workspace import open_workspace
from lexergy.tasks.detection.judging import Question
from lexergy.tasks.detection.opening import Guarantee, Opening

TEXTS_PER_SHARD = 256
TEXTS = pa.schema([("place", pa.string()), ("text", pa.string()), ("reason", pa.string())])
VERDICTS = pa.schema(
    [
        ("place", pa.string()),
        ("reason", pa.string()),  # why there is no verdict
        ("probability", pa.float64()),
        ("prior", pa.float64()),
        ("energy", pa.float64()),
        ("tokens", pa.int64()),
        ("blocks", pa.int64()),
        ("share_read", pa.float64()),
        ("warnings", pa.list_(pa.string())),
        ("disguises", pa.list_(pa.string())),
    ]
)


def judge_into(
    folder: str | Path, opening: Opening, question: Question, *, progress: bool = True
) -> Iterator[dict[str, Any]]:
    """What the detector says of each text of some files and folders, in order; see `VERDICTS`.

    Where a rate of false positives is asked for, a verdict has the fields of an `Accusation`, too.
    """
    detector, guarantee = opening.open()
    sources = question.sources
    content = {
        "sources": [(file, content_hash(Path(file))) for file in text_files(sources) if Path(file).is_file()],
        "named": list(sources),
        "text_field": question.text_field,
        "per_shard": TEXTS_PER_SHARD,
    }
    with open_workspace(folder, seed=0, progress=progress) as workspace:
        texts = stage_of_rows(workspace, "texts", content, lambda: _tables(question))
        config = {**opening.key, "prior": question.prior, "normalised": question.normalised}
        verdicts = stage_from_rows(
            workspace, "verdicts", config, texts, lambda table: _judge(detector, table, question)
        )
        accusations = iter(()) if guarantee is None else _accusations(verdicts, guarantee)
        for (table,) in shards_of(verdicts):
            for row in table.to_pylist():
                accused = guarantee is not None and row["energy"] is not None
                yield {**row, **(asdict(next(accusations)) if accused else {})}


def _accusations(verdicts: Stage, guarantee: Guarantee) -> Iterator[Accusation]:
    """Of all texts together, since a correction over many needs them all."""
    numbers = [
        (energy, tokens)
        for (table,) in shards_of(verdicts)
        for energy, tokens in zip(*(table.column(name).to_pylist() for name in ("energy", "tokens")), strict=True)
        if energy is not None
    ]
    energies, tokens = zip(*numbers, strict=True) if numbers else ((), ())
    return iter(accuse(guarantee.people, energies, tokens, guarantee.allowed))


def _tables(question: Question) -> Iterator[pa.Table]:
    entries = question.read()
    while batch := list(islice(entries, TEXTS_PER_SHARD)):
        yield pa.Table.from_pylist([_row(entry) for entry in batch], TEXTS)


def _row(entry: PlacedText | Unreadable) -> dict[str, str]:
    return {name: value for name, value in asdict(entry).items() if name in TEXTS.names}


def _judge(detector: Detector, texts: pa.Table, question: Question) -> pa.Table:
    rows = texts.to_pylist()
    stored = [row["text"] for row in rows if row["text"] is not None]
    judged = detector.detect(stored, prior=question.prior, normalised=question.normalised)
    verdicts = [
        {"place": row["place"], "reason": row["reason"]}
        if row["text"] is None
        else {"place": row["place"], **_verdict(next(judged))}
        for row in rows
    ]
    return pa.Table.from_pylist(verdicts, VERDICTS)


def _verdict(judged: Detection | LexergyError) -> dict[str, Any]:
    if isinstance(judged, LexergyError):
        return {"reason": str(judged)}
    return {name: getattr(judged, name) for name in VERDICTS.names if name not in ("place", "reason")}
