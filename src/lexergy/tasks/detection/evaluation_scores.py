"""What a detector says of each text of an evaluation, kept in shards: a stopped evaluation goes on where it was."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from lexergy.data.detection.style import Style, style_of
from lexergy.files import cache_folder, hash_of
from lexergy.models.detection.detector import Detection, Detector
from lexergy.progress import progress_bar
from lexergy.runs.shards import num_shards, shard_rows
from lexergy.runs.stages import Facts
from lexergy.runs.workspace import OpenStage, open_workspace, stage_store

FEWEST, MOST, SHARDS = 16, 256, 500  # texts of a shard; shards, where these allow it
ROWS = "rows"
SCORES = pa.schema([("energy", pa.float64()), ("tokens", pa.int64()), ("style", pa.list_(pa.float64()))])


class Scored(NamedTuple):
    """The energy of a text, in so many tokens, and its style as it was read."""

    energy: float
    tokens: int
    style: Style


def scored_texts(
    detector: Detector,
    key: dict[str, Any],  # what decides the detector's energies
    texts: Sequence[str],
    folder: str | Path | None = None,
    *,
    progress: bool = True,
) -> list[Scored | None]:
    """What the detector says of each text, None of one that is too short.

    It is kept in `folder`, by default in one of the cache that is named by the detector and the texts, which are not
    kept themselves.
    """
    per_shard = texts_per_shard(len(texts))
    config = {"detector": key, "texts": hash_of(list(texts)), "per_shard": per_shard}
    shards = num_shards(len(texts), per_shard)

    def build(stage: OpenStage) -> Facts:
        store = stage.store(ROWS)
        missing = store.missing(shards)
        left = sum(len(shard_rows(shard, len(texts), per_shard)) for shard in missing)
        with progress_bar("texts", len(texts), progress, completed=len(texts) - left) as bar:

            def judge(shard: int) -> pa.Table:
                rows = shard_rows(shard, len(texts), per_shard)
                table = []
                for scored in _scored(detector, [texts[row] for row in rows]):
                    table.append({} if scored is None else scored._asdict())
                    bar.advance(1)
                return pa.Table.from_pylist(table, SCORES)

            store.fill(shards, judge, "texts", progress=False)
        return {"shards": shards}

    with open_workspace(folder or cache_folder() / "evaluations" / hash_of(config), 0, progress=False) as workspace:
        stage = workspace.stage("scores", config, [], build)
        return [_from_row(row) for row in stage_store(stage, ROWS).table(shards).to_pylist()]


def texts_per_shard(count: int) -> int:
    """Few, so that little is lost; of very many texts more, so that there are not too many files."""
    return min(MOST, max(FEWEST, count // SHARDS))


def _scored(detector: Detector, texts: Sequence[str]) -> Iterator[Scored | None]:
    for judged in detector.detect(texts):
        if isinstance(judged, Detection):
            yield Scored(judged.energy, judged.tokens, style_of(judged.text))
        else:
            yield None


def _from_row(row: dict[str, Any]) -> Scored | None:
    return None if row["energy"] is None else Scored(row["energy"], row["tokens"], Style(*row["style"]))
