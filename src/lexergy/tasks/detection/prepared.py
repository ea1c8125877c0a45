"""Examples as a detector reads them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from lexergy.files import atomic_path, reading
from lexergy.models.detection.detector import FEWEST_TOKENS, Detector
from lexergy.models.detection.readers import TokenisedText
from lexergy.tasks.detection.examples import Example, ExampleSplits, matched_lengths

LEFT_OF_TEXT = 0.9
ENERGIES_FILE = "energies.safetensors"
BASELINE = "baseline."


@dataclass(frozen=True)
class PreparedTexts:
    """N texts in a detector's tokens, who wrote them, and which belong together."""

    texts: list[TokenisedText]
    is_machine: Tensor  # (N,) bool
    groups: list[str]
    sources: list[str]

    @property
    def tokens(self) -> Tensor:
        """How many each has: (N,)."""
        return torch.tensor([len(text.ids) for text in self.texts])

    @property
    def machine_sources(self) -> tuple[str, ...]:
        """The corpora by machines."""
        return self._sources(True)

    @property
    def people_sources(self) -> tuple[str, ...]:
        return self._sources(False)

    def _sources(self, machines: bool) -> tuple[str, ...]:
        pairs = zip(self.sources, self.is_machine.tolist(), strict=True)
        return tuple(dict.fromkeys(source for source, is_machine in pairs if is_machine == machines))

    def chosen(self, wanted: Sequence[bool]) -> "PreparedTexts":
        """Some of them."""
        places = [place for place, own in enumerate(wanted) if own]
        return PreparedTexts(
            [self.texts[place] for place in places],
            self.is_machine[torch.tensor(places, dtype=torch.long)],
            [self.groups[place] for place in places],
            [self.sources[place] for place in places],
        )

    def __len__(self) -> int:
        return len(self.texts)


@dataclass(frozen=True)
class PreparedSplits:
    """Training and validation texts are cut so that their lengths tell nothing; test texts are whole."""

    train: PreparedTexts
    validation: PreparedTexts
    test: PreparedTexts


@dataclass(frozen=True)
class TextEnergies:
    """The energies of test texts by a detector, not calibrated, and by what it is compared with: (N,) each."""

    detector: Tensor
    baselines: dict[str, Tensor]

    def save(self, folder: Path) -> None:
        baselines = {f"{BASELINE}{name}": values for name, values in self.baselines.items()}
        with atomic_path(folder / ENERGIES_FILE) as partial:
            save_file({"test": self.detector, **baselines}, partial)

    @classmethod
    def load(cls, folder: Path) -> "TextEnergies":
        with reading(folder / ENERGIES_FILE):
            values = load_file(folder / ENERGIES_FILE)
        return cls(values.pop("test"), {name.removeprefix(BASELINE): own for name, own in values.items()})


def prepare_splits(detector: Detector, splits: ExampleSplits) -> PreparedSplits:
    """The texts as the detector sees them; those too short to be judged are left out."""
    return PreparedSplits(
        train=_cut(prepare_texts(detector, splits.train)),
        validation=_cut(prepare_texts(detector, splits.validation)),
        test=prepare_texts(detector, splits.test),
    )


def prepare_texts(detector: Detector, examples: Sequence[Example]) -> PreparedTexts:
    """Whole texts as the detector sees them."""
    read = [(detector.read(example.text), example) for example in examples]
    kept = [(text, example) for text, example in read if detector.blocks_of(text)]
    return PreparedTexts(
        texts=[text for text, _ in kept],
        is_machine=torch.tensor([example.is_machine for _, example in kept], dtype=torch.bool),
        groups=[example.group for _, example in kept],
        sources=[example.source for _, example in kept],
    )


def _cut(texts: PreparedTexts) -> PreparedTexts:
    """Of one distribution of lengths, and none at the end of its last sentence: where only the longer class broke off
    within a sentence, ends would tell the classes apart.
    """
    limits = matched_lengths([len(text.ids) for text in texts.texts], texts.is_machine.tolist())
    cut = [
        text.first(max(FEWEST_TOKENS, int(LEFT_OF_TEXT * limit)))
        for text, limit in zip(texts.texts, limits, strict=True)
    ]
    return PreparedTexts(cut, texts.is_machine, texts.groups, texts.sources)
