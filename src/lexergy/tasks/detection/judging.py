"""Judge texts with a detector; what cannot be read or judged is named, the rest goes on."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from lexergy.core.detection.calibration import EVEN
from lexergy.data.detection.style import style_of
from lexergy.data.texts import PlacedText, Unreadable, arriving_texts, read_texts
from lexergy.errors import LexergyError
from lexergy.models.detection.detector import Detection, Detector
from lexergy.models.detection.people import accuse, length_warnings, shift_warning
from lexergy.progress import progress_bar
from lexergy.tasks.detection.opening import Guarantee, OpenDetector, Opening

AT_ONCE = 512  # texts of a stream that are read ahead, at most


class Question(NamedTuple):
    """Which texts are asked about, and how they are read."""

    sources: Sequence[str]
    text_field: str = "text"
    prior: float = EVEN
    normalised: bool = True

    def read(self) -> Iterator[PlacedText | Unreadable]:
        return read_texts(self.sources, text_field=self.text_field)

    def arriving(self) -> Iterator[PlacedText | Unreadable | None]:
        return arriving_texts(self.sources, text_field=self.text_field)


class Judged(NamedTuple):
    """A text's place and what the detector says of it."""

    place: str
    detection: Detection


class Judgement(NamedTuple):
    judged: list[Judged]
    unreadable: list[Unreadable]
    guarantee: Guarantee | None
    warning: str | None  # where the texts are unlike those that false positives are calibrated on


def judge_sources(opening: Opening, question: Question) -> Judgement:
    """Every text of some files and folders (see `read_texts`); where there is none, no detector is opened."""
    read = list(question.read())
    texts = [entry for entry in read if isinstance(entry, PlacedText)]
    unreadable = [entry for entry in read if isinstance(entry, Unreadable)]
    if not texts:
        return Judgement([], unreadable, None, None)
    detector, guarantee = opening.open()
    judged = []
    detections = _detections(detector, (text.text for text in texts), question)
    with progress_bar("texts", len(texts), enabled=len(texts) > 1) as bar:
        for text, detection in zip(texts, detections, strict=True):
            if isinstance(detection, LexergyError):
                unreadable.append(Unreadable(text.place, str(detection)))
            else:
                judged.append(Judged(text.place, detection))
            bar.advance(1)
    if guarantee is None:
        return Judgement(judged, unreadable, None, None)
    warning = shift_warning(guarantee.people, [style_of(detection.text) for _, detection in judged])
    return Judgement(_accused(judged, guarantee), unreadable, guarantee, warning)


def judge_stream(opened: OpenDetector, question: Question) -> Iterator[Judged | Unreadable]:
    """The same one after the other while they are read: of any number, and from a pipe that does not end.

    Nobody waits for texts that are not written yet: those that are there are judged together.
    """
    detector, guarantee = opened
    for entries in _batches(question.arriving()):
        detections = _detections(detector, (own.text for own in entries if isinstance(own, PlacedText)), question)
        for entry in entries:
            if isinstance(entry, Unreadable):
                yield entry
                continue
            detection = next(detections)
            if isinstance(detection, LexergyError):
                yield Unreadable(entry.place, str(detection))
            elif guarantee is None:
                yield Judged(entry.place, detection)
            else:
                yield from _accused([Judged(entry.place, detection)], guarantee)


def _batches(entries: Iterable[PlacedText | Unreadable | None]) -> Iterator[list[PlacedText | Unreadable]]:
    """As many as are there, up to AT_ONCE."""
    batch: list[PlacedText | Unreadable] = []
    for entry in entries:
        if entry is not None:
            batch.append(entry)
        if batch and (entry is None or len(batch) == AT_ONCE):
            yield batch
            batch = []
    if batch:
        yield batch


def _detections(detector: Detector, texts: Iterator[str], question: Question) -> Iterator[Detection | LexergyError]:
    return detector.detect(texts, prior=question.prior, normalised=question.normalised)


def _accused(judged: Sequence[Judged], guarantee: Guarantee) -> list[Judged]:
    def short(detection: Detection) -> tuple[str, ...]:
        return length_warnings(guarantee.people, detection.tokens)

    accusations = accuse(
        guarantee.people,
        [detection.energy for _, detection in judged],
        [detection.tokens for _, detection in judged],
        guarantee.allowed,
    )
    return [
        Judged(place, replace(detection, accusation=accusation, warnings=detection.warnings + short(detection)))
        for (place, detection), accusation in zip(judged, accusations, strict=True)
    ]
