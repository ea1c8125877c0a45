"""A detector: the energy of a text of any length, and the probability that a machine wrote it."""

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor

from lexergy.data.plain_text import plain_text, whole_sentences
from lexergy.errors import LexergyError
from lexergy.files import atomic_write_json
from lexergy.models.detection.blocks import Block, excerpts, intersecting_blocks, mean_by_token
from lexergy.models.detection.readers import READERS, BlockReader, TokenisedText

SETTINGS_FILE = "detector.json"
STAGE = "detector"  # of `lexergy detect train`, where the trained detector lies
FORMAT = 1
SPAN_TOKENS = 16
FEWEST_TOKENS = 2  # nothing predicts the first
_TEXTS_AT_ONCE = 256
# Characters per token: as many blocks, half shared, hold about 2.5 for each; no tokenizer needs 8 in plain text.
_LONG, _EXCERPT = 2.5, 8


@dataclass(frozen=True)
class DetectorSettings:
    """How texts are read and what an energy is worth: P(machine | x) = sigmoid(E(x) / temperature)."""

    block_tokens: int
    temperature: float = 1.0
    most_blocks: int = 32  # of a very long text, so many are read, evenly spread

    def probability(self, energy: float) -> float:
        return 1 / (1 + math.exp(-max(-500.0, min(500.0, energy / self.temperature))))


@dataclass(frozen=True)
class Span:
    """Some neighbouring words of a text, characters start .. end - 1, and the mean energy of their tokens."""

    start: int
    end: int
    energy: float
    probability: float


@dataclass(frozen=True)
class Detection:
    """What a detector says of one text. A positive energy means a machine."""

    probability: float  # that a machine wrote it
    energy: float  # mean over the blocks read
    tokens: int  # that were read
    blocks: int
    share_read: float  # below 1 for a very long text
    text: str  # as it was read: whitespace, quotes and the end made plain
    spans: tuple[Span, ...]  # of what was read


class Detector:
    """Reads a text in intersecting blocks; its energy is the mean over blocks (Table 6, Bakhtin et al. 2019).

    Examples:
        >>> import tempfile
        >>> from lexergy import Detector, TransformerEnergy
        >>> from lexergy.models.detection.detector import DetectorSettings
        >>> from lexergy.models.detection.readers import EncoderReader
        >>> from lexergy.testing import save_tiny_encoder
        >>> encoder, folder = tempfile.mkdtemp(), tempfile.mkdtemp()
        >>> save_tiny_encoder(encoder, ["the", "state", "of", "our", "union", "is", "strong"])
        >>> energy = TransformerEnergy.from_encoder(encoder)  # `lexergy detect train` would train it
        >>> Detector(EncoderReader(energy), DetectorSettings(block_tokens=24)).save_pretrained(folder)
        >>> judged, = Detector.from_pretrained(folder).detect(["The state of our union is strong."])
        >>> judged.probability, judged.energy, judged.tokens  # an untrained energy cannot tell
        (0.5, 0.0, 8)
    """

    def __init__(self, reader: BlockReader, settings: DetectorSettings) -> None:
        most = reader.most_tokens
        if most is not None and settings.block_tokens > most:
            raise LexergyError(
                f"`block_tokens` is {settings.block_tokens}; expected at most {most}, all that the model reads at once."
            )
        self.reader = reader
        self.settings = settings

    @classmethod
    def from_pretrained(cls, folder: str | Path) -> Self:
        """Load a detector from a folder that `save_pretrained` (or `lexergy detect train`) has written."""
        folder = Path(folder)
        if (folder / STAGE / SETTINGS_FILE).is_file():
            folder = folder / STAGE
        values = _read_settings(folder)
        reader = READERS[values.pop("reader")].from_pretrained(folder)
        return cls(reader, DetectorSettings(**values))

    def save_pretrained(self, folder: str | Path) -> None:
        """Write the detector to a folder; its settings last, without which the folder is no detector."""
        folder = Path(folder)
        (folder / SETTINGS_FILE).unlink(missing_ok=True)
        self.reader.save_pretrained(folder)
        record = {"format": FORMAT, "reader": self.reader.kind, **asdict(self.settings)}
        atomic_write_json(folder / SETTINGS_FILE, record)

    def calibrated(self, temperature: float) -> "Detector":
        """This detector at another temperature."""
        return Detector(self.reader, replace(self.settings, temperature=temperature))

    def detect(self, texts: Iterable[str]) -> Iterator[Detection | LexergyError]:
        """What is found of each text, in order; an error in the place of a text too short to be judged."""
        remaining = iter(texts)
        while batch := [self.read(text) for text in islice(remaining, _TEXTS_AT_ONCE)]:
            detections = self.judge([text for text in batch if self.blocks_of(text)])
            yield from (next(detections) if self.blocks_of(text) else _too_short(text) for text in batch)

    def judge(self, texts: Sequence[TokenisedText]) -> Iterator[Detection]:
        """What is found of texts that have been read, each long enough; their blocks go through together."""
        blocks = [self.blocks_of(text) for text in texts]
        pieces = [text.piece(block) for text, own in zip(texts, blocks, strict=True) for block in own]
        energies = iter(self.reader.token_energies(pieces))
        for text, own in zip(texts, blocks, strict=True):
            yield self._detection(text, own, [next(energies) for _ in own])

    def read(self, text: str) -> TokenisedText:
        """A text as the detector sees it; of a very long one, excerpts of a block each."""
        plain = whole_sentences(plain_text(text))
        size, count = self.settings.block_tokens, self.settings.most_blocks
        if len(plain) <= _LONG * size * count:
            return self.reader.tokenise(plain)
        ids: list[int] = []
        characters: list[tuple[int, int]] = []
        blocks = []
        for start, end in excerpts(plain, count, _EXCERPT * size):
            part = self.reader.tokenise(plain[start:end]).first(size)
            blocks.append(Block(len(ids), len(ids) + len(part.ids)))
            ids += part.ids
            characters += [(start + first, start + last) for first, last in part.characters]
        return TokenisedText(plain, ids, characters, tuple(block for block in blocks if _is_long_enough(block)))

    def blocks_of(self, text: TokenisedText) -> list[Block]:
        """The blocks in which it is read; none of a text that is too short."""
        blocks = text.excerpts or intersecting_blocks(len(text.ids), self.settings.block_tokens)
        return [block for block in blocks if _is_long_enough(block)]

    def _detection(self, text: TokenisedText, blocks: Sequence[Block], energies: Sequence[Tensor]) -> Detection:
        energy = float(torch.stack([own.double().mean() for own in energies]).mean())
        return Detection(
            probability=self.settings.probability(energy),
            energy=energy,
            tokens=len(text.ids),
            blocks=len(blocks),
            share_read=_covered(text) / max(1, len(text.text)) if text.excerpts else 1.0,
            text=text.text,
            spans=tuple(self._spans(text, mean_by_token(len(text.ids), blocks, energies))),
        )

    def _spans(self, text: TokenisedText, energies: Tensor) -> Iterator[Span]:  # (tokens,)
        """Some words each. A mean of fewer tokens strays further: by the root of how many fewer it is discounted."""
        at_once = min(len(energies), self.settings.block_tokens)
        for block in text.excerpts or [Block(0, len(energies))]:
            for start, end in text.words(block, SPAN_TOKENS):
                energy = float(energies[start:end].mean())
                discounted = energy * math.sqrt(min(1.0, (end - start) / at_once))
                first, last = text.characters[start][0], text.characters[end - 1][1]
                yield Span(first, last, energy, self.settings.probability(discounted))


def _is_long_enough(block: Block) -> bool:
    return block.end - block.start >= FEWEST_TOKENS


def _covered(text: TokenisedText) -> int:
    """How many characters lie in some excerpt."""
    reached, covered = 0, 0
    for block in text.excerpts:
        start, end = text.characters[block.start][0], text.characters[block.end - 1][1]
        covered += max(0, end - max(start, reached))
        reached = max(reached, end)
    return covered


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
        version = values.pop("format")
        known = values["reader"] in READERS
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise LexergyError(f"`{path}` is damaged; copy the folder again or train again.") from error
    if version != FORMAT or not known:
        raise LexergyError(f"`{path}` is of another version of Lexergy (format {version}); train again.")
    return values
