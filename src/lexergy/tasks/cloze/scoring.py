"""Score many texts: shard by shard, each written once, so that a killed run goes on and nothing is scored twice."""

import ctypes
import hashlib
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from lexergy.files import cache_folder, hash_of
from lexergy.models.scoring.scorer import TextScorer
from lexergy.progress import progress_bar
from lexergy.runs.fingerprint import fingerprint
from lexergy.runs.shards import ShardStore

TEXTS_PER_SHARD = 4096


class ScoredTexts(NamedTuple):
    """Consecutive texts, and a row for each of them.

    Columns: `log_score`, the sum of the tokens' `log_scores`; `spans`, where each token stands in the text;
    `num_pieces`, more than 1 for a text longer than the model reads at once; `seconds`, of the whole shard.
    """

    texts: Sequence[str]
    table: pa.Table


class TextScores(NamedTuple):
    """The score of each of N texts."""

    log_scores: np.ndarray  # (N,), sums over tokens
    num_tokens: np.ndarray  # (N,)
    num_pieces: np.ndarray  # (N,)
    seconds: float  # that the scoring took, when it was done


def score_texts(
    scorer: TextScorer, source: str, texts: Sequence[str], *, relative: bool = False, progress: bool = True
) -> TextScores:
    """All scores at once; see `scored_shards`."""
    columns: dict[str, list[np.ndarray]] = {"log_score": [], "num_tokens": [], "num_pieces": []}
    seconds = 0.0
    for shard in scored_shards(scorer, source, texts, relative=relative, progress=progress):
        for name, parts in columns.items():
            parts.append(shard.table[name].to_numpy())
        seconds += _seconds(shard.table)
    log_scores, num_tokens, num_pieces = (np.concatenate(parts or [np.zeros(0)]) for parts in columns.values())
    return TextScores(log_scores, num_tokens, num_pieces, seconds)


def scored_shards(
    scorer: TextScorer, source: str, texts: Sequence[str], *, relative: bool = False, progress: bool = True
) -> Iterator[ScoredTexts]:
    """The texts' scores, some thousands at a time.

    Each shard is kept in the cache under the model (`source`) and its own texts, and is not computed again, also where
    another list begins with the same texts; within one, equal texts are scored once.

    `relative`: log p(x_t | context) - log p(x_t), how much the context speaks for a token, be it frequent or rare.
    """
    if relative:
        scorer.log_frequencies([])  # says at once if it cannot
    model = (fingerprint(source) or source) + scorer.edition
    parts = [texts[start : start + TEXTS_PER_SHARD] for start in range(0, len(texts), TEXTS_PER_SHARD)]
    stores = [_store(model, part) for part in parts]
    is_done = not any(store.missing(1) for store in stores)
    with progress_bar(f"scoring with {Path(source).name}", len(texts), progress and not is_done) as bar:
        for part, store in zip(parts, stores, strict=True):
            table = store.read(0)
            if table is None:
                table = _score(scorer, part)
                store.write(0, table)
                _give_back_memory()
            bar.advance(len(part), texts_per_second=len(part) / max(_seconds(table), 1e-9))
            yield ScoredTexts(part, _relative(scorer, part, table) if relative else table)


def _store(model: str, texts: Sequence[str]) -> ShardStore:
    """Where the one shard of these texts is kept."""
    digest = hashlib.sha256()
    for text in texts:
        digest.update(text.encode("utf-8", "surrogatepass") + b"\0")
    provenance = {"model": model, "texts": digest.hexdigest()[:16]}
    return ShardStore(cache_folder() / "scores" / hash_of(provenance), provenance)


def _score(scorer: TextScorer, texts: Sequence[str]) -> pa.Table:
    started = time.monotonic()
    unique = list(dict.fromkeys(texts))
    scores = dict(zip(unique, scorer.score(unique), strict=True))
    rows = [scores[text] for text in texts]
    seconds = time.monotonic() - started
    return pa.table(
        {
            "log_score": pa.array([row.log_score for row in rows], pa.float64()),
            "num_tokens": pa.array([len(row.log_scores) for row in rows], pa.int32()),
            "log_scores": pa.array([row.log_scores for row in rows], pa.list_(pa.float64())),
            "spans": pa.array([row.spans for row in rows], pa.list_(pa.list_(pa.int32(), 2))),
            "num_pieces": pa.array([row.num_pieces for row in rows], pa.int32()),
            "seconds": pa.array([seconds] * len(rows), pa.float64()),
        }
    )


def _relative(scorer: TextScorer, texts: Sequence[str], table: pa.Table) -> pa.Table:
    """The scores less those of the tokens without their context."""
    rows = zip(table["log_scores"].to_pylist(), scorer.log_frequencies(texts), strict=True)
    scores = [[score - own for score, own in zip(scored, owns, strict=True)] for scored, owns in rows]
    columns = {
        "log_scores": pa.array(scores, pa.list_(pa.float64())),
        "log_score": pa.array(map(sum, scores), pa.float64()),
    }
    for name, values in columns.items():
        table = table.set_column(table.schema.get_field_index(name), name, values)
    return table


def _give_back_memory() -> None:
    """Batches of ever other sizes leave holes in glibc's heap, which would grow by some kilobytes a text."""
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # musl has none and needs none
        if trim is not None:
            trim(0)


def _seconds(table: pa.Table) -> float:
    return float(table["seconds"][0].as_py())
