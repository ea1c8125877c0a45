"""Train a detector that is a linear head on a frozen LM's states and likelihood moments."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from lexergy.models.causal.lm import CausalLM
from lexergy.models.causal.state_features import MOMENTS
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


def states_detector(lm: CausalLM, layers: Sequence[int], settings: DetectorSettings) -> Detector:
    """A detector whose energy is 0 everywhere, about to be fitted."""
    return Detector(StatesReader(lm, StatesEnergy.for_lm(lm, tuple(layers), statistics="moments")), settings)


def fit_states(detector: Detector, texts: PreparedSplits, stage: OpenStage) -> TextEnergies:
    """Compute the features of training and test texts once, fit the head on the former, give the latter's energies."""
    reader = detector.reader
    assert isinstance(reader, StatesReader)
    train, test = _stored_features(detector, texts, stage)
    fit_texts(reader.energy, train, texts.train)
    baseline = likelihood_energies(mean_log_probs(train), texts.train.is_machine, mean_log_probs(test))
    return TextEnergies(text_energies(reader.energy, test), {LIKELIHOOD: baseline})


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
    """The token means of each of a text's blocks."""
    assert isinstance(detector.reader, StatesReader)
    pieces = [text.piece(block) for block in detector.blocks_of(text)]
    return torch.stack([detector.reader.features(piece).mean(0) for piece in pieces])


def fit_texts(energy: StatesEnergy, features: Sequence[Tensor], texts: PreparedTexts) -> None:
    """Fit the head on all blocks of the texts, each block of its text's class and group."""
    counts = torch.tensor([len(blocks) for blocks in features])
    groups = [group for group, blocks in zip(texts.groups, features, strict=True) for _ in blocks]
    fit_head(energy, torch.cat(list(features)), texts.is_machine.repeat_interleave(counts), groups)


@torch.inference_mode()
def text_energies(energy: StatesEnergy, features: Sequence[Tensor]) -> Tensor:  # (blocks, F) each -> (N,)
    """Means over blocks, as the detector will give them."""
    return torch.stack([energy.of_features(blocks).cpu().double().mean() for blocks in features])


def mean_log_probs(features: Sequence[Tensor]) -> Tensor:  # (blocks, F) each -> (N,)
    column = MOMENTS.index("log-probability") - len(MOMENTS)
    return torch.stack([blocks[:, column].double().mean() for blocks in features])
