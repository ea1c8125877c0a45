"""The scores that one model gave to texts, kept by text, so that any list finds what was scored for another."""

import hashlib
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import NamedTuple

import numpy as np

from lexergy.errors import LexergyError
from lexergy.files import cache_folder, hash_of, keep
from lexergy.models.scoring.scorer import TextScore

SECONDS_TO_WAIT = 300  # for another process that writes
_TABLE = (
    "CREATE TABLE IF NOT EXISTS scores "
    "(text BLOB PRIMARY KEY, log_scores BLOB, spans BLOB, num_pieces INTEGER, seconds REAL)"
)


class KeptScore(NamedTuple):
    score: TextScore
    seconds: float  # this text's share of the time that its batch took


class ScoreStore:
    """A SQLite file for each model: several processes may write into it, and each write happens wholly or not at all.

    Texts are known by their hashes. `model` names the weights and whatever else the scores depend on.
    """

    def __init__(self, model: str) -> None:
        self.path = cache_folder() / "scores" / f"{hash_of({'model': model})}.sqlite"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        keep()

    def read(self, texts: Sequence[str]) -> dict[str, KeptScore]:
        """What is kept of these texts; those that are not there are left out."""
        by_key = {_key(text): text for text in texts}
        marks = ",".join("?" * len(by_key))
        query = f"SELECT text, log_scores, spans, num_pieces, seconds FROM scores WHERE text IN ({marks})"
        with self._connected() as connection:
            rows = connection.execute(query, list(by_key)).fetchall()
        return {by_key[key]: _kept(*values) for key, *values in rows}

    def write(self, scores: Mapping[str, TextScore], seconds: float) -> None:
        """Keep the scores of a batch of texts, which took so many seconds."""
        share = seconds / max(1, len(scores))
        rows = [
            (
                _key(text),
                np.array(score.log_scores, np.float64).tobytes(),
                np.array(score.spans, np.int32).tobytes(),
                score.num_pieces,
                share,
            )
            for text, score in scores.items()
        ]
        with self._connected() as connection:
            connection.executemany("INSERT OR REPLACE INTO scores VALUES (?, ?, ?, ?, ?)", rows)

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        try:
            with closing(sqlite3.connect(self.path, timeout=SECONDS_TO_WAIT)) as connection, connection:
                connection.execute(_TABLE)
                yield connection
        except sqlite3.DatabaseError as error:
            raise LexergyError(
                f"the scores kept in '{self.path}' cannot be used ({error}); remove that file, and they are made again."
            ) from error


def _key(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:16]


def _kept(log_scores: bytes, spans: bytes, num_pieces: int, seconds: float) -> KeptScore:
    places = np.frombuffer(spans, np.int32).reshape(-1, 2).tolist()
    values = tuple(np.frombuffer(log_scores, np.float64).tolist())
    return KeptScore(TextScore(values, tuple((start, end) for start, end in places), num_pieces), seconds)
