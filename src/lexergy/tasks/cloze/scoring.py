"""Score many texts: each is kept as soon as its batch is done; a killed run goes on, and none is scored twice."""

import ctypes
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from lexergy.models.scoring.scorer import TextScore, TextScorer
from lexergy.progress import progress_bar
from lexergy.runs.fingerprint import fingerprint
from lexergy.tasks.cloze.score_store import KeptScore, ScoreStore

TEXTS_AT_ONCE = 1024  # so few that a dear model loses little when it is killed


class ScoredTexts(NamedTuple):
    """Consecutive texts and their scores."""

    texts: Sequence[str]
    scores: Sequence[TextScore]
    seconds: float  # that the scoring took, when it was done; equal texts count once


class TextScores(NamedTuple):
    """The score of each of N texts."""

    log_scores: np.ndarray  # (N,), sums over tokens
    num_tokens: np.ndarray  # (N,)
    num_pieces: np.ndarray  # (N,)
    seconds: float  # that the scoring took, when it was done


def score_texts(scorer: TextScorer, source: str, texts: Sequence[str], *, progress: bool = True) -> TextScores:
    """All scores at once; see `scored_batches`."""
    rows: list[tuple[float, int, int]] = []
    seconds = 0.0
    for batch in scored_batches(scorer, source, texts, progress=progress):
        rows += [(score.log_score, len(score.log_scores), score.num_pieces) for score in batch.scores]
        seconds += batch.seconds
    columns = np.array(rows, np.float64).reshape(-1, 3)
    return TextScores(columns[:, 0], columns[:, 1].astype(int), columns[:, 2].astype(int), seconds)


def scored_batches(
    scorer: TextScorer, source: str, texts: Sequence[str], *, relative: bool = False, progress: bool = True
) -> Iterator[ScoredTexts]:
    """The texts' scores, some thousands at a time.

    Each is kept in the cache under the model (`source`) and its text, and is not computed again, in whatever list the
    text comes up.

    `relative`: log p(x_t | context) - log p(x_t), how much the context speaks for a token, be it frequent or rare.
    """
    if relative:
        scorer.log_frequencies([])  # says at once if it cannot
    store = ScoreStore((fingerprint(source) or source) + scorer.edition)
    with progress_bar(f"scoring with {Path(source).name}", len(texts), progress and bool(texts)) as bar:
        for start in range(0, len(texts), TEXTS_AT_ONCE):
            part = texts[start : start + TEXTS_AT_ONCE]
            kept = _all_kept(scorer, store, part)
            seconds = sum(score.seconds for score in kept.values())
            bar.advance(len(part), texts_per_second=len(kept) / max(seconds, 1e-9))
            scores = [kept[text].score for text in part]
            yield ScoredTexts(part, _relative(scorer, part, scores) if relative else scores, seconds)


def fresh_scores(scorer: TextScorer, texts: Sequence[str], *, relative: bool = False) -> Sequence[TextScore]:
    """The scores of a batch of texts, computed now."""
    scores = scorer.score(texts)
    _give_back_memory()
    return _relative(scorer, texts, scores) if relative else scores


def _all_kept(scorer: TextScorer, store: ScoreStore, texts: Sequence[str]) -> dict[str, KeptScore]:
    """The scores of the texts, those that were missing scored first."""
    kept = store.read(texts)
    missing = [text for text in dict.fromkeys(texts) if text not in kept]
    if missing:
        started = time.monotonic()
        scores = fresh_scores(scorer, missing)
        store.write(dict(zip(missing, scores, strict=True)), time.monotonic() - started)
        kept |= store.read(missing)
    return kept


def _relative(scorer: TextScorer, texts: Sequence[str], scores: Sequence[TextScore]) -> list[TextScore]:
    """The scores less those of the tokens without their context."""
    return [
        replace(score, log_scores=tuple(value - own for value, own in zip(score.log_scores, owns, strict=True)))
        for score, owns in zip(scores, scorer.log_frequencies(texts), strict=True)
    ]


def _give_back_memory() -> None:
    """Batches of ever other sizes leave holes in glibc's heap, which would grow by some kilobytes a text."""
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # musl has none and needs none
        if trim is not None:
            trim(0)
