"""Which sentences of a text are a machine's: how often a detector is right where texts were spliced at known places."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from lexergy.core.detection.classification import Metric, classification_metrics
from lexergy.core.estimation.findings import Estimate, mean
from lexergy.models.detection.detector import Detection, Detector
from lexergy.tasks.detection.splicing import SentenceTruth

CHAIN, ALONE, WHOLE, ALL_PEOPLE, ALL_MACHINE = (
    "sentences, with their neighbours",
    "sentences, each alone",
    "the whole text's label",
    "all people's",
    "all a machine's",
)
BINS = 5


@dataclass(frozen=True)
class ReliabilityBin:
    """Sentences of nearly one probability: how many, their mean probability, and the share that a machine wrote."""

    sentences: int
    probability: float
    machine: float


@dataclass(frozen=True)
class Attribution:
    """Of spliced texts the share of characters that are attributed to their writer, a mean over texts.

    Intervals are by bootstrap over documents. The calibration error weighs both writers alike, as everywhere.
    """

    texts: int
    sentences: int
    right: dict[str, Estimate]  # by method; those that read nothing last
    auc: Metric  # of sentences
    calibration_error: Metric
    reliability: tuple[ReliabilityBin, ...]


def attribution_row(detector: Detector, truth: SentenceTruth) -> dict[str, Any]:
    """Of one text the share of characters that each method attributes rightly, and its sentences."""
    detection, settings = truth.detection, detector.settings
    assert settings.sentence is not None
    probabilities = np.array([own.probability for own in detection.sentences], dtype=float)
    alone = settings.sentence.log_odds(truth.energies, truth.tokens).sigmoid().numpy()
    whole = np.full(len(alone), _probability(detector, detection), dtype=float)
    by_method = {CHAIN: probabilities, ALONE: alone, WHOLE: whole, ALL_PEOPLE: 0 * whole, ALL_MACHINE: 0 * whole + 1}
    return {
        "group": truth.splice.group,
        "probabilities": probabilities.tolist(),
        "is_machine": truth.is_machine.tolist(),
        "right": [_share_right(truth, values) for values in by_method.values()],
    }


def _probability(detector: Detector, detection: Detection) -> float:
    """That a machine wrote the text; where the detector gives none, as of a sentence of that length."""
    if detection.probability is not None:
        return detection.probability
    assert detector.settings.sentence is not None
    return detector.settings.sentence.probability(detection.energy, detection.tokens)


def _share_right(truth: SentenceTruth, probabilities: np.ndarray) -> float:  # (S,)
    """Characters of the text that was read; blanks between sentences are nobody's."""
    actual = truth.splice.mixed.is_machine_at[: len(truth.detection.text)]
    named = np.full(len(actual), np.nan)
    for own, probability in zip(truth.detection.sentences, probabilities, strict=True):
        named[own.start : own.end] = probability > 0.5
    written = ~np.isnan(actual)
    return float((named == actual)[written].mean())


def attribution(rows: Sequence[dict[str, Any]], seed: int = 0) -> Attribution:
    """All of some texts (`attribution_row`)."""
    groups = [row["group"] for row in rows]
    methods = (CHAIN, ALONE, WHOLE, ALL_PEOPLE, ALL_MACHINE)
    right = {
        method: mean([np.array([row["right"][place] for row in rows])], seed, groups=[groups])
        for place, method in enumerate(methods)
    }
    probabilities = torch.tensor([value for row in rows for value in row["probabilities"]], dtype=torch.double)
    is_machine = torch.tensor([value for row in rows for value in row["is_machine"]])
    documents = [row["group"] for row in rows for _ in row["probabilities"]]
    metrics = classification_metrics(probabilities.logit(eps=1e-12), is_machine, documents, seed=seed)
    return Attribution(
        texts=len(rows),
        sentences=len(documents),
        right=right,
        auc=metrics.auc,
        calibration_error=metrics.calibration_error,
        reliability=reliability(probabilities, is_machine),
    )


def reliability(probabilities: Tensor, is_machine: Tensor) -> tuple[ReliabilityBin, ...]:  # (N,), (N,)
    """Sentences in bins of equal width in probability; empty ones left out."""
    bins = (probabilities * BINS).long().clamp_max(BINS - 1)
    chosen = [bins == number for number in range(BINS)]
    return tuple(
        ReliabilityBin(int(own.sum()), float(probabilities[own].mean()), float(is_machine[own].double().mean()))
        for own in chosen
        if own.any()
    )
