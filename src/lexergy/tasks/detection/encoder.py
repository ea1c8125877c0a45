"""Train a detector that is a pretrained encoder, fine-tuned to tell machine text from people's."""

from collections.abc import Callable, Sequence
from itertools import cycle, islice
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from lexergy.models.detection.detector import Detector, DetectorSettings
from lexergy.models.detection.readers import EncoderReader, TokenisedText
from lexergy.models.energies import TransformerEnergy
from lexergy.recipes.sections.training import TrainingRecipe
from lexergy.runs.stages import Facts
from lexergy.runs.workspace import OpenStage
from lexergy.tasks.detection.prepared import PreparedSplits, PreparedTexts, TextEnergies
from lexergy.training.objectives.contrastive import ContrastiveData, NoiseContrastive
from lexergy.training.stage import train_into

BATCH_SIZE = 16  # pairs of blocks
LEARNING_RATE = 1e-4
PATIENCE = 2  # epochs


def encoder_detector(source: str, settings: DetectorSettings, seed: int) -> Detector:
    """A detector on an encoder with a head of zeros, about to be fine-tuned."""
    return Detector(EncoderReader(TransformerEnergy.from_encoder(source, seed=seed)), settings)


def fit_encoder(
    detector: Detector,
    texts: PreparedSplits,
    stage: OpenStage,
    *,
    epochs: int,
    seed: int,
    save: Callable[[Path, TextEnergies], None],
) -> Facts:
    """Fine-tune all weights on pairs of blocks by NCE (Eq. 3, Deng et al. 2020), the best epoch kept.

    Killed, it goes on from its last checkpoint.
    """
    reader = detector.reader
    assert isinstance(reader, EncoderReader)
    objective = NoiseContrastive(_pairs(detector, texts.train, reader), _pairs(detector, texts.validation, reader))
    epoch = -(-objective.num_examples // BATCH_SIZE)
    config = TrainingRecipe(
        learning_rate=LEARNING_RATE,
        max_steps=epochs * epoch,
        batch_size=min(BATCH_SIZE, objective.num_examples),
        warmup_steps=min(10, epoch),
        schedule="linear",
        weight_decay=0.01,
        evaluate_every=epoch,
        checkpoint_every=epoch,
        patience=PATIENCE,
        seed=seed,
    )

    def judge_and_save(folder: Path) -> None:
        save(folder, TextEnergies(_text_energies(detector, texts.test.texts), baselines={}))

    return train_into(stage, reader.energy, objective, config, save=judge_and_save, label="detector")


def _text_energies(detector: Detector, texts: Sequence[TokenisedText]) -> Tensor:  # N -> (N,)
    return torch.tensor([detection.energy for detection in detector.judge(texts)], dtype=torch.double)


def _pairs(detector: Detector, texts: PreparedTexts, reader: EncoderReader) -> ContrastiveData:
    """Each block of people beside one of a machine, those of the class that has fewer as often as it takes."""
    blocks: dict[bool, list[Tensor]] = {False: [], True: []}
    for text, is_machine in zip(texts.texts, texts.is_machine.tolist(), strict=True):
        blocks[is_machine] += [text.piece(block) for block in detector.blocks_of(text)]
    count = max(len(own) for own in blocks.values())
    rows = [block for own in blocks.values() for block in islice(cycle(own), count)]
    padded = pad_sequence(rows, batch_first=True, padding_value=int(reader.tokenizer.pad_token_id or 0))  # (2 N, C)
    people, machines = padded.split(count)
    return ContrastiveData(torch.empty(count, 0, dtype=torch.long), people, machines.unsqueeze(1))
