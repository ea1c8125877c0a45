"""A detector: the energy of a text of any length, and the probability that a machine wrote it."""

import math
import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, Self

import numpy as np
import torch
from pydantic import Field, TypeAdapter
from torch import Tensor

from lexergy.core.detection.calibration import EVEN, Calibration
from lexergy.core.detection.two_writers import TwoWriters
from lexergy.data.detection.normalisation import Normalised, normalise
from lexergy.data.detection.plain_text import plain_text, whole_sentences
from lexergy.data.detection.sentences import sentences
from lexergy.errors import LexergyError
from lexergy.files import atomic_write_json, read_json, remove
from lexergy.models.detection.blocks import Block, excerpts, intersecting_blocks, mean_by_token
from lexergy.models.detection.combined import SumReader
from lexergy.models.detection.conditions import TrainingConditions
from lexergy.models.detection.people import Accusation, PeopleTexts
from lexergy.models.detection.readers import BlockReader, EncoderReader, StatesReader, TokenisedText
from lexergy.models.detection.zero_shot import ZeroShotReader
from lexergy.recipes.sections.runtime import split_precision
from lexergy.storage import fetched

READERS: dict[str, type[BlockReader]] = {
    reader.kind: reader for reader in (StatesReader, EncoderReader, ZeroShotReader, SumReader)
}
SETTINGS_FILE = "detector.json"
STAGE = "detector"  # of `lexergy detect train`, where the trained detector lies
FORMAT = 2
SPAN_TOKENS = 16
LOWEST = -1e9  # the score of a text that cannot be judged; finite, as JSON wants it
FEWEST_TOKENS = 2  # nothing predicts the first
# Characters per token: as many blocks, half shared, hold about 2.5 for each; no tokenizer needs 8 in plain text.
_LONG, _EXCERPT = 2.5, 8


UNKNOWN = (
    "what this detector was trained on is not known (it was saved by an older version of Lexergy, or not by `lexergy "
    "detect train`): its probabilities do not depend on how long a text is, those of spans are not calibrated; train "
    "it again"
)


@dataclass(frozen=True)
class DetectorSettings:
    """How texts are read, what an energy is worth, and for which texts that was found out."""

    block_tokens: Annotated[int, Field(ge=FEWEST_TOKENS)]
    most_blocks: Annotated[int, Field(ge=1)] = 32  # of a very long text, so many are read, evenly spread
    text: Calibration | None = field(default_factory=Calibration)  # None: an energy is worth no probability
    span: Calibration | None = field(default_factory=Calibration)  # of some words, read within their text
    sentence: Calibration | None = None  # of a sentence by itself, in texts of two writers
    writers: TwoWriters | None = None  # how sentences of such texts follow each other
    trained_on: TrainingConditions | None = None
    people: PeopleTexts | None = None  # whom it accuses wrongly how often, known from texts not trained on


_SETTINGS = TypeAdapter(DetectorSettings)


@dataclass(frozen=True)
class Span:
    """Some neighbouring words of a text, characters start .. end - 1, and the mean energy of their tokens.

    The probability is that a machine wrote the text, judged by the energy of these tokens alone. It is calibrated on
    spans of texts that were not trained on, and so nearer to the prior than that of the text.
    """

    start: int
    end: int
    tokens: int
    energy: float
    probability: float | None  # None of a detector that nobody trained


@dataclass(frozen=True)
class Sentence:
    """Characters start .. end - 1 of a text, and the mean energy of their tokens.

    The probability is that a machine wrote this sentence, judged by it and by those around it
    (`core.detection.two_writers`); None of a detector that was not calibrated on texts of two writers.
    """

    start: int
    end: int
    tokens: int
    energy: float
    probability: float | None


@dataclass(frozen=True)
class Detection:
    """What a detector says of one text. The higher the energy, the more it is a machine's."""

    probability: float | None  # that a machine wrote it, where the share `prior` of all texts is a machine's
    prior: float
    energy: float  # mean over the blocks read
    tokens: int  # that were read
    blocks: int
    share_read: float  # below 1 for a very long text
    warnings: tuple[str, ...]  # in what it is unlike the texts that the detector was trained on
    text: str  # as it was read: whitespace, quotes and the end made plain
    spans: tuple[Span, ...]  # of what was read
    sentences: tuple[Sentence, ...] = ()  # of what was read
    disguises: tuple[str, ...] = ()  # what was undone before it was read, in words
    accusation: Accusation | None = None  # what texts of people say of it, where they were asked


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
        """Load a detector from a folder that `save_pretrained` (or `lexergy detect train`) has written.

        With `folder#precision=bfloat16` its model computes in that, faster where the processor has such products.
        """
        source, precision = split_precision(folder)
        folder = fetched(source)
        if (folder / STAGE / SETTINGS_FILE).is_file():
            folder = folder / STAGE
        kind, settings = read_settings(folder)
        return cls(READERS[kind].from_pretrained(folder, precision), settings)

    def save_pretrained(self, folder: str | Path) -> None:
        """Write the detector to a folder; its settings last, without which the folder is no detector."""
        folder = Path(folder)
        remove(folder / SETTINGS_FILE)
        self.reader.save_pretrained(folder)
        record = {"format": FORMAT, "reader": self.reader.kind, **asdict(self.settings)}
        atomic_write_json(folder / SETTINGS_FILE, record)

    def detect(
        self, texts: Iterable[str], *, prior: float = EVEN, normalised: bool = True
    ) -> Iterator[Detection | LexergyError]:
        """What is found of each text, in order; an error in the place of a text too short to be judged.

        `prior` is the share of machine text among all that could have been asked about. Disguises (`normalise`) are
        undone and told, unless `normalised` is False.
        """
        if not 0 < prior < 1:
            raise LexergyError(f"`prior` is {prior:g}; expected more than 0 and less than 1; 0.5 favours nobody.")
        plain = (normalise(text) if normalised else Normalised(text) for text in texts)
        for group in self._groups(plain):
            detections = self.judge([text for text, _ in group if self.blocks_of(text)], prior)
            for text, disguises in group:
                yield replace(next(detections), disguises=disguises) if self.blocks_of(text) else _too_short(text)

    def scores(self, texts: Iterable[str]) -> list[float]:
        """The energies alone, as others' evaluations want them: the higher, the more a machine's.

        A text too short to be judged has the lowest: nobody is accused for a word.
        """
        return [LOWEST if isinstance(judged, LexergyError) else judged.energy for judged in self.detect(texts)]

    def _groups(self, texts: Iterable[Normalised]) -> Iterator[list[tuple[TokenisedText, tuple[str, ...]]]]:
        """Texts that are read together, with their disguises: so many that batches fill, so few that a bar moves."""
        group: list[tuple[TokenisedText, tuple[str, ...]]] = []
        num_tokens = 0
        for text in texts:
            group.append((self.read(text.text), text.disguises))
            num_tokens += len(group[-1][0].ids) + 1  # a text without tokens is one to wait for, too
            if num_tokens >= self.reader.tokens_together:
                yield group
                group, num_tokens = [], 0
        if group:
            yield group

    def judge(self, texts: Sequence[TokenisedText], prior: float = EVEN) -> Iterator[Detection]:
        """What is found of texts that have been read, each long enough; their blocks go through together."""
        blocks = [self.blocks_of(text) for text in texts]
        pieces = [text.piece(block) for text, own in zip(texts, blocks, strict=True) for block in own]
        energies = self.reader.token_energies(pieces)
        own_energies = [[next(energies) for _ in own] for own in blocks]
        by_token = [
            mean_by_token(len(text.ids), own, values)
            for text, own, values in zip(texts, blocks, own_energies, strict=True)
        ]
        # Once for all texts: a call of torch costs as much for a number as for a thousand.
        means = [statistics.fmean(own.mean(dtype=torch.double).item() for own in values) for values in own_energies]
        probabilities = _probabilities(self.settings.text, means, [len(text.ids) for text in texts], prior)
        spans = self._spans(texts, by_token, prior)
        for text, own, energy, probability, values in zip(texts, blocks, means, probabilities, by_token, strict=True):
            yield self._detection(text, len(own), energy, probability, prior, next(spans), values)

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

    def _detection(
        self,
        text: TokenisedText,
        num_blocks: int,
        energy: float,
        probability: float | None,
        prior: float,
        spans: tuple[Span, ...],
        by_token: Tensor,  # (tokens,)
    ) -> Detection:
        tokens, conditions = len(text.ids), self.settings.trained_on
        unknown = (UNKNOWN,) if self.settings.text else ()
        return Detection(
            probability=probability,
            prior=prior,
            energy=energy,
            tokens=tokens,
            blocks=num_blocks,
            share_read=_covered(text) / max(1, len(text.text)) if text.excerpts else 1.0,
            warnings=tuple(conditions.warnings(energy, tokens)) if conditions else unknown,
            text=text.text,
            spans=spans,
            sentences=tuple(self._sentences(text, by_token, prior)),
        )

    def _spans(
        self,
        texts: Sequence[TokenisedText],
        energies: Sequence[Tensor],  # of each text (tokens,)
        prior: float,
    ) -> Iterator[tuple[Span, ...]]:
        """Of each text."""
        spans = [
            [span for block in text.excerpts or [Block(0, len(text.ids))] for span in text.words(block, SPAN_TOKENS)]
            for text in texts
        ]
        means, lengths = [], []
        for values, own in zip((own.numpy() for own in energies), spans, strict=True):
            means += [values[span.start : span.end].mean() for span in own]
            lengths += [span.end - span.start for span in own]
        found = zip(means, lengths, _probabilities(self.settings.span, means, lengths, prior), strict=True)
        for text, own in zip(texts, spans, strict=True):
            edges = [(text.characters[span.start][0], text.characters[span.end - 1][1]) for span in own]
            yield tuple(
                Span(first, last, length, float(energy), probability)
                for (first, last), (energy, length, probability) in zip(edges, islice(found, len(edges)), strict=True)
            )

    def _sentences(self, text: TokenisedText, energies: Tensor, prior: float) -> Iterator[Sentence]:  # (tokens,)
        places, values = sentences(text.text), energies.numpy()
        ends = [last for _, last in text.characters]
        # The sentence in which each token ends: (tokens,)
        own = np.searchsorted([start for start, _ in places], ends).clip(1) - 1
        is_read = ~np.isnan(values)
        count = np.bincount(own[is_read], minlength=len(places))
        total = np.bincount(own[is_read], values[is_read], minlength=len(places))
        (read,) = count.nonzero()  # (S,)
        means, tokens = total[read] / count[read], count[read]
        probabilities: list[float | None] = [None] * len(read)
        if self.settings.sentence is not None and self.settings.writers is not None:
            log_odds = self.settings.sentence.log_odds(torch.from_numpy(means), torch.from_numpy(tokens))
            probabilities = self.settings.writers.probabilities(log_odds, prior).tolist()
        columns = zip(tokens.tolist(), means.tolist(), probabilities, strict=True)
        for place, (size, energy, probability) in zip(read.tolist(), columns, strict=True):
            start, end = places[place]
            yield Sentence(start, end, size, energy, probability)


def _probabilities(
    calibration: Calibration | None, energies: Sequence[float], tokens: Sequence[int], prior: float
) -> list[float | None]:
    """Of pieces of so many tokens and of these energies; None without a calibration."""
    if calibration is None:
        return [None] * len(energies)
    values = torch.tensor(energies, dtype=torch.double)
    return calibration.log_odds(values, torch.tensor(tokens), prior).sigmoid().tolist()


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


def read_settings(folder: Path) -> tuple[str, DetectorSettings]:
    """The kind of reader and the settings of the detector in a folder."""
    path = folder / SETTINGS_FILE
    if not path.is_file():
        raise LexergyError(
            f"no detector at `{folder}`: {SETTINGS_FILE} not found; expected a folder written by "
            "`lexergy detect train --out`; check the path."
        )
    try:
        values = read_json(path, dict)
        version, kind = values.pop("format"), values.pop("reader")
        known = version in (1, FORMAT) and kind in READERS
        settings = _SETTINGS.validate_python(_of_format_1(values) if version == 1 else values) if known else None
    except (ValueError, KeyError, AttributeError, TypeError, OverflowError, ZeroDivisionError) as error:
        raise LexergyError(f"`{path}` is damaged; copy the folder again or train again.") from error
    if settings is None:
        raise LexergyError(f"`{path}` is of another version of Lexergy (format {version}); train again.")
    return kind, settings


def _of_format_1(values: dict[str, Any]) -> dict[str, Any]:
    """P(machine) = sigmoid(E / temperature), of spans discounted by the root of how much shorter than a block."""
    slope = 1 / values.pop("temperature")
    discount = math.sqrt(min(1.0, SPAN_TOKENS / values["block_tokens"]))
    return {**values, "text": {"slope": slope}, "span": {"slope": slope * discount}}
