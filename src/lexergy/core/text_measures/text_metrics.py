"""Metrics of chosen hypotheses as sums of statistics over utterances: WER, BLEU, chrF."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from lexergy.errors import LexergyError

METRICS = ("wer", "bleu", "chrf")


class Metric(NamedTuple):
    """`value(sum over utterances of statistics(hypothesis, reference))` is the metric of a corpus, in percent."""

    name: str
    higher_is_better: bool
    statistics: Callable[[Sequence[str], str], Tensor]  # N hypotheses of one reference -> (N, S)
    value: Callable[[Tensor], Tensor]  # (..., S) -> (...)

    def of_sums(self, sums: np.ndarray) -> np.ndarray:  # (..., S) -> (...)
        """`value` as a `CorpusMetric`."""
        return self.value(torch.from_numpy(np.ascontiguousarray(sums))).numpy()


def metric_named(name: str) -> Metric:
    """Word error rate, or sacreBLEU's BLEU and chrF with their default settings."""
    if name == "wer":
        return Metric("WER", False, _word_errors, lambda sums: 100 * sums[..., 0] / sums[..., 1])
    if name not in METRICS:
        raise LexergyError(f"the metric is {name!r}; expected one of {', '.join(METRICS)}.")
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF

    scorer: Any = BLEU() if name == "bleu" else CHRF()
    return Metric("BLEU" if name == "bleu" else "chrF", True, _sacrebleu_statistics(scorer), _sacrebleu_value(scorer))


def bleu_of_words() -> Metric:
    """sacreBLEU's BLEU of words that are separated by blanks already (`-tok none`)."""
    from sacrebleu.metrics.bleu import BLEU

    scorer: Any = BLEU(tokenize="none", force=True)
    return Metric("BLEU", True, _sacrebleu_statistics(scorer), _sacrebleu_value(scorer))


def _word_errors(hypotheses: Sequence[str], reference: str) -> Tensor:
    """Edits between words, and words of the reference: (N, 2). It is what jiwer counts, by the library it uses."""
    from rapidfuzz.distance import Levenshtein

    words = reference.split()
    errors = [Levenshtein.distance(hypothesis.split(), words) for hypothesis in hypotheses]
    return torch.tensor([(error, len(words)) for error in errors], dtype=torch.double)


def _sacrebleu_statistics(scorer: Any) -> Callable[[Sequence[str], str], Tensor]:
    def statistics(hypotheses: Sequence[str], reference: str) -> Tensor:
        # What its own significance tests sum; the public calls start from the texts each time.
        rows = scorer._extract_corpus_statistics(hypotheses, [[reference] * len(hypotheses)])
        return torch.tensor(rows, dtype=torch.double)

    return statistics


def _sacrebleu_value(scorer: Any) -> Callable[[Tensor], Tensor]:
    def value(sums: Tensor) -> Tensor:
        rows = sums.reshape(-1, sums.shape[-1]).round().long().tolist()
        scores = [scorer._compute_score_from_stats(row).score for row in rows]
        return torch.tensor(scores, dtype=torch.double).view(sums.shape[:-1])

    return value
