"""Train a detector that is a linear head on a frozen LM's states and likelihood moments."""

from collections.abc import Sequence

import torch
from torch import Tensor

from lexergy.models.causal.lm import CausalLM
from lexergy.models.causal.state_features import MOMENTS
from lexergy.models.detection.detector import Detector, DetectorSettings
from lexergy.models.detection.readers import StatesReader, TokenisedText
from lexergy.models.energies import StatesEnergy
from lexergy.progress import progress_bar
from lexergy.tasks.detection.baselines import likelihood_energies
from lexergy.tasks.detection.examples import ExampleSplits
from lexergy.tasks.detection.heads import fit_head
from lexergy.tasks.detection.prepared import FittedDetector, PreparedTexts, prepare_splits

LIKELIHOOD = "likelihood"


class FrozenFeatures:
    """Features of blocks of texts: computed once, since no training changes them."""

    def __init__(self, detector: Detector, reader: StatesReader) -> None:
        self.detector = detector
        self.reader = reader

    def of(self, texts: Sequence[TokenisedText], label: str, *, progress: bool) -> list[Tensor]:
        """The token means of each text's blocks, (blocks, F) each."""
        found = []
        with progress_bar(label, len(texts), progress) as bar:
            for text in texts:
                pieces = [text.piece(block) for block in self.detector.blocks_of(text)]
                found.append(torch.stack([self.reader.features(piece).mean(0) for piece in pieces]))
                bar.advance(1)
        return found


def states_detector(lm: CausalLM, layers: Sequence[int], settings: DetectorSettings) -> Detector:
    """A detector whose energy is 0 everywhere, about to be fitted."""
    return Detector(StatesReader(lm, StatesEnergy.for_lm(lm, tuple(layers), statistics="moments")), settings)


def fit_states(detector: Detector, splits: ExampleSplits, *, progress: bool) -> FittedDetector:
    """Compute the features of all texts once, fit the head on the training texts, give everybody's energies."""
    reader = detector.reader
    assert isinstance(reader, StatesReader)
    prepared = prepare_splits(detector, splits)
    frozen = FrozenFeatures(detector, reader)
    features = {
        name: frozen.of(getattr(prepared, name).texts, f"reading {name} texts", progress=progress)
        for name in ("train", "validation", "test")
    }
    fit_texts(reader.energy, features["train"], prepared.train)
    baseline = likelihood_energies(
        mean_log_probs(features["train"]), prepared.train.is_machine, mean_log_probs(features["test"])
    )
    return FittedDetector(
        detector,
        prepared,
        validation=text_energies(reader.energy, features["validation"]),
        test=text_energies(reader.energy, features["test"]),
        baselines={LIKELIHOOD: baseline},
    )


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
