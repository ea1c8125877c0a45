"""Train a detector that is a linear head on the states and likelihood moments of a frozen LM, or of several."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from lexergy.models.causal.lm import CausalLM
from lexergy.models.causal.state_features import MOMENTS
from lexergy.models.detection.combined import SumReader
from lexergy.models.detection.detector import Detector, DetectorSettings
from lexergy.models.detection.readers import StatesReader, TokenisedText
from lexergy.models.energies import StatesEnergy
from lexergy.runs.columns import from_column, to_column
from lexergy.runs.shards import num_shards, shard_rows
from lexergy.runs.workspace import OpenStage
from lexergy.tasks.detection.baselines import likelihood_energies
from lexergy.tasks.detection.heads import fit_head
from lexergy.tasks.detection.prepared import PreparedSplits, PreparedTexts, TextEnergies

LIKELIHOOD = "likelihood"
FEATURES_FOLDER = "features"
TEXTS_PER_SHARD = 16


def states_detector(lms: Sequence[CausalLM], layers: Sequence[int], settings: DetectorSettings) -> Detector:
    """A detector whose energy is 0 everywhere, about to be fitted."""
    readers = [StatesReader(lm, StatesEnergy.for_lm(lm, tuple(layers), statistics="moments")) for lm in lms]
    return Detector(readers[0] if len(readers) == 1 else SumReader(readers), settings)


def fit_states(detector: Detector, texts: PreparedSplits, stage: OpenStage) -> TextEnergies:
    """Compute the features of training and test texts once, fit the head on the former, give the latter's energies."""
    energies = [reader.energy for reader in lms_of(detector)]
    train, test = _stored_features(detector, texts, stage)
    fit_texts(energies, train, texts.train)
    own = [[_parts(energies, blocks)[0] for blocks in part] for part in (train, test)]  # of the first LM
    baseline = likelihood_energies(mean_log_probs(own[0]), texts.train.is_machine, mean_log_probs(own[1]))
    return TextEnergies(text_energies(energies, test), {LIKELIHOOD: baseline})


def lms_of(detector: Detector) -> tuple[StatesReader, ...]:
    """The LMs that a detector reads."""
    reader = detector.reader
    assert isinstance(reader, StatesReader | SumReader)
    return (reader,) if isinstance(reader, StatesReader) else reader.lms


def _stored_features(detector: Detector, splits: PreparedSplits, stage: OpenStage) -> list[list[Tensor]]:
    """Of the training and test texts, (blocks, F) each; no training changes them, and a kill loses few."""
    parts = [splits.train.texts, splits.test.texts]
    texts = [text for part in parts for text in part]

    def read(shard: int) -> pa.Table:
        rows = shard_rows(shard, len(texts), TEXTS_PER_SHARD)
        features = [block_features(detector, texts[row]) for row in rows]
        numbers = [row for row, blocks in zip(rows, features, strict=True) for _ in blocks]
        return pa.table({"text": pa.array(numbers), "features": to_column(torch.cat(features).numpy())})

    shards, store = num_shards(len(texts), TEXTS_PER_SHARD), stage.store(FEATURES_FOLDER)
    store.fill(shards, read, "reading texts", progress=stage.progress)
    table = store.table(shards)
    counts = np.bincount(table.column("text").to_numpy()).tolist()
    blocks = iter(torch.from_numpy(from_column(table.column("features"))).split(counts))
    return [[next(blocks) for _ in part] for part in parts]


def block_features(detector: Detector, text: TokenisedText) -> Tensor:  # (blocks, F)
    """The token means of each of a text's blocks, those of one LM after the other's."""
    reader = detector.reader
    assert isinstance(reader, StatesReader | SumReader)
    pieces = [text.piece(block) for block in detector.blocks_of(text)]
    return torch.stack([reader.mean_features(piece) for piece in pieces])


def fit_texts(energies: Sequence[StatesEnergy], features: Sequence[Tensor], texts: PreparedTexts) -> None:
    """Fit the head on all blocks of the texts, each block of its text's class and group."""
    counts = torch.tensor([len(blocks) for blocks in features])
    groups = [group for group, blocks in zip(texts.groups, features, strict=True) for _ in blocks]
    parts = _parts(energies, torch.cat(list(features)))
    fit_head(energies, parts, texts.is_machine.repeat_interleave(counts), groups)


@torch.inference_mode()
def text_energies(energies: Sequence[StatesEnergy], features: Sequence[Tensor]) -> Tensor:  # (blocks, F) each -> (N,)
    """Means over blocks, as the detector will give them."""
    means = []
    for blocks in features:
        parts = zip(energies, _parts(energies, blocks), strict=True)
        means.append(sum(energy.of_features(own).cpu().double().mean() for energy, own in parts))
    return torch.tensor(means, dtype=torch.double)


def _parts(energies: Sequence[StatesEnergy], features: Tensor) -> tuple[Tensor, ...]:  # (n, F) -> (n, F_i) each
    """The features of each LM."""
    return features.split([len(energy.mean) for energy in energies], 1)


def mean_log_probs(features: Sequence[Tensor]) -> Tensor:  # (blocks, F) each, of one LM -> (N,)
    column = MOMENTS.index("log-probability") - len(MOMENTS)
    return torch.stack([blocks[:, column].double().mean() for blocks in features])
