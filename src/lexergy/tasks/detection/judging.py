"""Judge texts with a finished detector; what cannot be read or judged is named, the rest goes on."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from lexergy.core.calibration import EVEN
from lexergy.data.texts import PlacedText, Unreadable, read_texts
from lexergy.errors import LexergyError
from lexergy.models.detection.detector import Detection, Detector
from lexergy.progress import progress_bar


class Judged(NamedTuple):
    """A text's place and what the detector says of it."""

    place: str
    detection: Detection


class Judgement(NamedTuple):
    judged: list[Judged]
    unreadable: list[Unreadable]


def judge_sources(
    model: str | Path,
    sources: Sequence[str],
    text_field: str = "text",
    prior: float = EVEN,
    *,
    normalised: bool = True,
) -> Judgement:
    """Every text of some files and folders (see `read_texts`), judged by the detector in a folder."""
    detector = Detector.from_pretrained(model)
    read = list(read_texts(sources, text_field=text_field))
    texts = [entry for entry in read if isinstance(entry, PlacedText)]
    unreadable = [entry for entry in read if isinstance(entry, Unreadable)]
    judged = []
    detections = detector.detect((text.text for text in texts), prior=prior, normalised=normalised)
    with progress_bar("texts", len(texts), enabled=len(texts) > 1) as bar:
        for text, detection in zip(texts, detections, strict=True):
            if isinstance(detection, LexergyError):
                unreadable.append(Unreadable(text.place, str(detection)))
            else:
                judged.append(Judged(text.place, detection))
            bar.advance(1)
    return Judgement(judged, unreadable)
