"""A detector: the energy of a text of any length, and the probability that a machine wrote it."""

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import batched
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor

from lexergy.data.files import atomic_path
from lexergy.data.plain_text import plain_text, whole_sentences
from lexergy.errors import LexergyError
from lexergy.models.detection.blocks import Block, intersecting_blocks, mean_by_token
from lexergy.models.detection.readers import READERS, BlockReader, TokenisedText

SETTINGS_FILE = "detector.json"
FORMAT = 1
SPAN_TOKENS = 16
FEWEST_TOKENS = 2  # nothing predicts the first
_TEXTS_AT_ONCE = 64


@dataclass(frozen=True)
class DetectorSettings:
    """How texts are read and what an energy is worth: P(machine | x) = sigmoid(E(x) / temperature)."""

    block_tokens: int
    temperature: float = 1.0
    most_blocks: int = 32  # of a longer text, so many, evenly spread

    def probability(self, energy: float) -> float:
        return 1 / (1 + math.exp(-max(-500.0, min(500.0, energy / self.temperature))))


@dataclass(frozen=True)
class Span:
    """Some neighbouring tokens of a text, characters start .. end - 1, and their share of the energy."""

    start: int
    end: int
    energy: float
    probability: float


@dataclass(frozen=True)
class Detection:
    """What a detector says of one text. A positive energy means a machine."""

    probability: float  # that a machine wrote it
    energy: float  # mean over the blocks read
    tokens: int
    blocks_read: int
    blocks: int  # of the whole text
    text: str  # as it was read: whitespace, quotes and the end made plain
    spans: tuple[Span, ...]  # the whole text but for blocks not read


class Detector:
    """Reads a text in intersecting blocks; its energy is the mean over blocks (Table 6, Bakhtin et al. 2019)."""

    def __init__(self, reader: BlockReader, settings: DetectorSettings) -> None:
        self.reader = reader
        self.settings = settings

    @classmethod
    def from_pretrained(cls, folder: str | Path) -> Self:
        """Load a detector from a folder that `save` (or `lexergy detect train`) has written."""
        values = _read_settings(Path(folder))
        reader = READERS[values.pop("reader")].load(Path(folder))
        return cls(reader, DetectorSettings(**values))

    def save(self, folder: str | Path) -> None:
        with atomic_path(folder) as partial:
            partial.mkdir()
            self.reader.save(partial)
            record = {"format": FORMAT, "reader": self.reader.kind, **asdict(self.settings)}
            (partial / SETTINGS_FILE).write_text(json.dumps(record, indent=2) + "\n")

    def calibrated(self, temperature: float) -> "Detector":
        """This detector at another temperature."""
        return Detector(self.reader, replace(self.settings, temperature=temperature))

    def detect(self, texts: Iterable[str]) -> Iterator[Detection | LexergyError]:
        """What is found of each text, in order; an error in the place of a text too short to be judged."""
        for some in batched(texts, _TEXTS_AT_ONCE):
            yield from self._detect(some)

    def _detect(self, texts: Sequence[str]) -> Iterator[Detection | LexergyError]:
        tokenised = [self.read(text) for text in texts]
        blocks = [self.blocks_of(text) if len(text.ids) >= FEWEST_TOKENS else [] for text in tokenised]
        energies = iter(
            self.reader.token_energies(
                [
                    torch.tensor(text.ids[block.start : block.end])
                    for text, own in zip(tokenised, blocks, strict=True)
                    for block in own
                ]
            )
        )
        for text, own in zip(tokenised, blocks, strict=True):
            yield self._detection(text, own, [next(energies) for _ in own]) if own else _too_short(text)

    def read(self, text: str) -> TokenisedText:
        """A text as the detector sees it."""
        return self.reader.tokenise(whole_sentences(plain_text(text)))

    def blocks_of(self, text: TokenisedText) -> list[Block]:
        return intersecting_blocks(len(text.ids), self.settings.block_tokens, self.settings.most_blocks)

    def _detection(self, text: TokenisedText, blocks: Sequence[Block], energies: Sequence[Tensor]) -> Detection:
        energy = float(torch.stack([own.double().mean() for own in energies]).mean())
        return Detection(
            probability=self.settings.probability(energy),
            energy=energy,
            tokens=len(text.ids),
            blocks_read=len(blocks),
            blocks=len(intersecting_blocks(len(text.ids), self.settings.block_tokens)),
            text=text.text,
            spans=tuple(self._spans(text, mean_by_token(len(text.ids), blocks, energies))),
        )

    def _spans(self, text: TokenisedText, energies: Tensor) -> Iterator[Span]:  # (tokens,), NaN where not read
        for start in range(0, len(energies), SPAN_TOKENS):
            energy = float(energies[start : start + SPAN_TOKENS].nanmean())
            if not math.isnan(energy):
                characters = text.characters[start : start + SPAN_TOKENS]
                yield Span(characters[0][0], characters[-1][1], energy, self.settings.probability(energy))


def _too_short(text: TokenisedText) -> LexergyError:
    return LexergyError(
        f"It has {len(text.ids)} token{'' if len(text.ids) == 1 else 's'}; expected at least {FEWEST_TOKENS}, and "
        "some sentences for a verdict to be worth anything."
    )


def _read_settings(folder: Path) -> dict[str, Any]:
    path = folder / SETTINGS_FILE
    if not path.is_file():
        raise LexergyError(
            f"no detector at `{folder}`: {SETTINGS_FILE} not found; expected a folder written by "
            "`lexergy detect train --out`; check the path."
        )
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        found = values.pop("format")
        known = values["reader"] in READERS
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise LexergyError(f"`{path}` is damaged; copy the folder again or train again.") from error
    if found != FORMAT or not known:
        raise LexergyError(f"`{path}` is of another version of Lexergy (format {found}); train again.")
    return values
