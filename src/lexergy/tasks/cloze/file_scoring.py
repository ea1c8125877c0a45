"""Score a file of any number of lines: into a folder, a shard at a time, wherever the shards are computed.

The file is first kept in shards of lines; their scores are shards of the same lines. A command that was stopped goes on
where it was, and no more than a few shards are in memory.
"""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pyarrow as pa

from lexergy.data.reading import lines_of
from lexergy.errors import LexergyError
from lexergy.models.scoring.scorer import TextScore, TextScorer
from lexergy.runs.fingerprint import content_hash, fingerprint
from lexergy.runs.rows import shards_of, stage_from_rows, stage_of_rows
from lexergy.runs.workspace import open_workspace
from lexergy.storage import fetched
from lexergy.tasks.cloze.scoring import TEXTS_AT_ONCE, ScoredTexts, fresh_scores

TEXT = "text"


def score_file(
    scorer: TextScorer,
    source: str,
    file: str | Path,
    folder: str | Path,
    *,
    relative: bool = False,
    progress: bool = True,
) -> Iterator[ScoredTexts]:
    """The lines of a file and their scores by the model `source`, in order, some thousands at a time."""
    file = fetched(file)
    if relative:
        scorer.log_frequencies([])  # says at once if it cannot
    config = {"model": (fingerprint(source) or source) + scorer.edition, "relative": relative}
    with open_workspace(folder, seed=0, progress=progress) as workspace:
        content = {"content": content_hash(file), "per_shard": TEXTS_AT_ONCE}
        lines = stage_of_rows(workspace, "lines", content, lambda: _tables(file))
        scores = stage_from_rows(
            workspace, "scores", config, lines, lambda table: score_table(scorer, table, relative=relative)
        )
        for texts, scored in shards_of(lines, scores):
            seconds = scores.seconds * len(texts) / scores.facts["rows"]
            yield ScoredTexts(texts.column(TEXT).to_pylist(), list(_from_table(scored)), seconds)


def _tables(file: Path) -> Iterator[pa.Table]:
    lines, empty = lines_of(file), True
    while batch := list(islice(lines, TEXTS_AT_ONCE)):
        empty = empty and not any(line.strip() for line in batch)
        yield pa.table({TEXT: pa.array(batch, pa.string())})
    if empty:
        raise LexergyError(f"the file `{file}` holds no text; expected one sentence a line.")


def score_table(scorer: TextScorer, lines: pa.Table, *, relative: bool = False) -> pa.Table:
    """A row for each line; equal ones are scored once."""
    texts = lines.column(TEXT).to_pylist()
    unique = list(dict.fromkeys(texts))
    by_text = dict(zip(unique, fresh_scores(scorer, unique, relative=relative), strict=True))
    rows = [by_text[text] for text in texts]
    return pa.table(
        {
            "log_score": pa.array([score.log_score for score in rows], pa.float64()),
            "log_scores": pa.array([score.log_scores for score in rows], pa.list_(pa.float64())),
            "starts": pa.array([[start for start, _ in score.spans] for score in rows], pa.list_(pa.int32())),
            "ends": pa.array([[end for _, end in score.spans] for score in rows], pa.list_(pa.int32())),
            "num_pieces": pa.array([score.num_pieces for score in rows], pa.int32()),
        }
    )


def _from_table(table: pa.Table) -> Iterator[TextScore]:
    for row in table.to_pylist():
        spans = tuple(zip(row["starts"], row["ends"], strict=True))
        yield TextScore(tuple(row["log_scores"]), spans, row["num_pieces"])
