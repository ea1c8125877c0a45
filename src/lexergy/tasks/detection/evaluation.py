"""What a detector is worth on texts whose writers are known, by domain, generator, decoding and length."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from lexergy.core.detection.calibration import Calibration
from lexergy.core.detection.classification import ClassificationMetrics, Metric, classification_metrics
from lexergy.core.detection.conformal import bin_of, length_bins
from lexergy.core.estimation.findings import Estimate, clopper_pearson
from lexergy.errors import LexergyError
from lexergy.models.detection.detector import Detector
from lexergy.models.detection.people import accuse, shift_warning
from lexergy.tasks.detection.evaluation_scores import Scored, scored_texts
from lexergy.tasks.detection.evaluation_texts import EvaluationText
from lexergy.tasks.detection.opening import Guarantee

LENGTH = "length"
PEOPLE_TOO = ("domain", LENGTH)  # by which people's texts are divided, too; by others, all of them are compared with
PER_LENGTH = 20  # texts of either class in a bin of lengths
UNNAMED = "(none)"
ANY_LENGTH = "any length"  # where there are too few texts to divide


@dataclass(frozen=True)
class Measures:
    """How well people's and machines' texts are told apart; intervals are of 95 % and by bootstrap over documents.

    Where the detector gives no probabilities there is nothing to be calibrated. Where false positives are calibrated,
    `accused` is the share of people's texts that are called a machine's, with its binomial interval (Clopper and
    Pearson 1934), and `recognised` that of machines'.
    """

    people: int
    machines: int
    auc: Metric
    recall_at_1: Metric
    recall_at_5: Metric
    balanced_accuracy: Metric | None
    calibration_error: Metric | None
    accused: Estimate | None
    recognised: Estimate | None


@dataclass(frozen=True)
class DetectorEvaluation:
    """All texts, and those of each value of each column."""

    overall: Measures
    by: dict[str, dict[str, Measures]]
    left_out: dict[str, dict[str, str]]  # values of which nothing can be measured, and why
    unjudged: int  # texts too short
    false_positives: float | None  # the rate asked for
    warning: str | None


@dataclass(frozen=True)
class _Judged:
    """N texts and what the detector says of them."""

    texts: list[EvaluationText]
    energies: Tensor  # (N,), log-odds where the detector gives probabilities
    tokens: list[int]
    is_machine: Tensor  # (N,) bool
    accused: Tensor | None  # (N,) bool
    has_probabilities: bool


def evaluate(
    detector: Detector,
    key: dict[str, Any],  # what decides the detector's energies
    texts: Sequence[EvaluationText],
    by: Sequence[str] = (),
    guarantee: Guarantee | None = None,
    *,
    folder: str | Path | None = None,
    seed: int = 0,
    progress: bool = True,
) -> DetectorEvaluation:
    """Judge all texts once and measure, overall and by each of the columns (`length` is that in tokens).

    What the detector says is kept in `folder`, or in the cache (`evaluation_scores`): a killed evaluation goes on where
    it was, and other columns, another rate or another seed read nothing again.

    By domain and length people's texts are divided as machines' are; by any other column the machines' texts of each
    value are compared with all of people's, as no person has a generator or a decoding.
    """
    unknown = [name for name in by if name != LENGTH and not any(name in text.columns for text in texts)]
    if unknown:
        known = ", ".join(sorted({name for text in texts for name in text.columns} | {LENGTH}))
        raise LexergyError(f"the texts have no column `{unknown[0]}`; expected some of: {known}.")
    scores = scored_texts(detector, key, [own.text for own in texts], folder, progress=progress)
    judged, warning = _judged(detector.settings.text, texts, scores, guarantee)
    tables: dict[str, dict[str, Measures]] = {}
    left_out: dict[str, dict[str, str]] = {}
    for name in by:
        for value, chosen in _divided(judged, name).items():
            try:
                tables.setdefault(name, {})[value] = _measures(judged, chosen, seed)
            except LexergyError as error:
                left_out.setdefault(name, {})[value] = str(error)
    return DetectorEvaluation(
        overall=_measures(judged, torch.ones(len(judged.texts), dtype=torch.bool), seed),
        by=tables,
        left_out=left_out,
        unjudged=len(texts) - len(judged.texts),
        false_positives=None if guarantee is None else guarantee.allowed.rate,
        warning=warning,
    )


def _judged(
    calibration: Calibration | None,
    texts: Sequence[EvaluationText],
    scores: Sequence[Scored | None],
    guarantee: Guarantee | None,
) -> tuple[_Judged, str | None]:
    pairs = [(text, own) for text, own in zip(texts, scores, strict=True) if own is not None]
    kept = [text for text, _ in pairs]
    energies, tokens = [own.energy for _, own in pairs], [own.tokens for _, own in pairs]
    accused, warning = None, None
    if guarantee is not None:
        accusations = accuse(guarantee.people, energies, tokens, guarantee.allowed)
        accused = torch.tensor([accusation.verdict == "machine" for accusation in accusations])
        warning = shift_warning(guarantee.people, [own.style for text, own in pairs if not text.is_machine])
    values = torch.tensor(energies, dtype=torch.double)
    if calibration is not None:
        values = calibration.log_odds(values, torch.tensor(tokens))
    is_machine = torch.tensor([text.is_machine for text in kept], dtype=torch.bool)
    return _Judged(kept, values, tokens, is_machine, accused, calibration is not None), warning


def _divided(judged: _Judged, name: str) -> dict[str, Tensor]:
    """The texts (N,) that belong to each value of a column, by name."""
    values = _lengths(judged) if name == LENGTH else [text.columns.get(name, UNNAMED) for text in judged.texts]
    own = {value: torch.tensor([other == value for other in values]) for value in sorted(set(values), key=_natural)}
    if name in PEOPLE_TOO:
        return own
    return {
        value: chosen | ~judged.is_machine for value, chosen in own.items() if bool((chosen & judged.is_machine).any())
    }


def _lengths(judged: _Judged) -> list[str]:
    """The bin of lengths of each text; each holds some of either class."""
    counts = [
        length_bins(
            [own for own, machine in zip(judged.tokens, judged.is_machine.tolist(), strict=True) if machine == wanted],
            PER_LENGTH,
        )
        for wanted in (False, True)
    ]
    edges = sorted(set(counts[0]) & set(counts[1]))
    named = {low: f"{low} to {high - 1} tokens" for low, high in pairwise(edges)}
    last = f"{edges[-1]} tokens or more" if named else ANY_LENGTH
    return [named.get(bin_of(own, edges), last) for own in judged.tokens]


def _natural(value: str) -> tuple[int, str]:
    digits = value.split()[0] if value.split() else ""
    return (int(digits) if digits.isdigit() else -1, value)


def _measures(judged: _Judged, chosen: Tensor, seed: int) -> Measures:
    is_machine = judged.is_machine[chosen]
    documents = [text.document for text, wanted in zip(judged.texts, chosen.tolist(), strict=True) if wanted]
    found: ClassificationMetrics = classification_metrics(judged.energies[chosen], is_machine, documents, seed=seed)
    accused = None if judged.accused is None else judged.accused[chosen]
    return Measures(
        people=int((~is_machine).sum()),
        machines=int(is_machine.sum()),
        auc=found.auc,
        recall_at_1=found.recall_at_1,
        recall_at_5=found.recall_at_5,
        balanced_accuracy=found.balanced_accuracy if judged.has_probabilities else None,
        calibration_error=found.calibration_error if judged.has_probabilities else None,
        accused=None if accused is None else _share(accused[~is_machine]),
        recognised=None if accused is None else _share(accused[is_machine]),
    )


def _share(accused: Tensor) -> Estimate:  # (n,) bool
    return clopper_pearson(float(accused.double().mean()), len(accused))


def run_detection(f: Callable[[list[str]], list[float]], df: Any) -> list[dict[str, Any]]:
    """The scores that `f` gives the texts of a table with columns `id` and `generation`, as RAID calls it.

    The same as `raid.run_detection` (Dugan et al. 2024), so that what it returns is what `raid.run_evaluation` and its
    leaderboard take: [{"id": ..., "score": ...}], the higher the more a machine's. `Detector.scores` is such an `f`.
    """
    scores = f(df["generation"].tolist())
    if len(scores) != len(df):
        raise LexergyError(f"the detector gave {len(scores)} scores of {len(df)} texts; expected one of each.")
    return [{"id": name, "score": score} for name, score in zip(df["id"].tolist(), scores, strict=True)]
