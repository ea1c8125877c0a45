"""Where in a text a detector sees a machine: colours on a terminal, and one HTML page."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from lexergy.files import atomic_write_text
from lexergy.models.detection.detector import Detection, Sentence, Span
from lexergy.report.pages.html import Colour, blend, render
from lexergy.tasks.detection.judging import Judged, Judgement

HUMAN, NEUTRAL, MACHINE = (116, 173, 209), (250, 250, 250), (244, 109, 67)  # blue, white, orange: told apart by all

SPAN_NUMBER = "P(machine wrote the text), judged by these words alone and calibrated for so few"
SENTENCE_NUMBER = "P(machine wrote the sentence), judged by it and those around it, calibrated on texts of two writers"


class Piece(NamedTuple):
    """A run of text with its probability; None for text that was not read."""

    text: str
    probability: float | None


def meaning(detections: Iterable[Detection]) -> str:
    """What the numbers of the pieces are."""
    tell_sentences = any(own.probability is not None for detection in detections for own in detection.sentences)
    return f"Of each sentence: {SENTENCE_NUMBER}" if tell_sentences else f"Of each span: {SPAN_NUMBER}"


def pieces(detection: Detection) -> Iterator[Piece]:
    """The text from beginning to end, cut at the sentences where the detector tells of them, else at the spans.

    What lies between two goes with the first of them.
    """
    tell_sentences = any(own.probability is not None for own in detection.sentences)
    parts: Sequence[Sentence | Span] = detection.sentences if tell_sentences else detection.spans
    if not parts or parts[0].start > 0:
        yield Piece(detection.text[: parts[0].start if parts else None], None)
    ends = [part.start for part in parts[1:]] + [len(detection.text)]
    for span, end in zip(parts, ends, strict=True):
        yield Piece(detection.text[span.start : span.end], span.probability)
        between = detection.text[span.end : end]
        if between.strip():
            yield Piece(between, None)
        elif between:
            yield Piece(between, span.probability)


def colour(probability: float) -> Colour:
    """From blue (people) over white to orange (a machine)."""
    return blend(NEUTRAL, MACHINE if probability > 0.5 else HUMAN, abs(2 * probability - 1))


def css_colour(probability: float | None) -> str:
    return "transparent" if probability is None else "rgb({}, {}, {})".format(*colour(probability))


def verdict_sentences(judgement: Judgement) -> Iterator[str]:
    """What the verdicts mean, and where they may not hold."""
    if judgement.guarantee is not None:
        people, allowed = judgement.guarantee
        domains = ", ".join(dict.fromkeys(people.domains))
        whom = "Of the texts accused" if allowed.among_accused else "Of people's texts like these"
        number = "adjusted" if allowed.among_accused else "p-value"
        worst = ", in the domain where it is largest" if "," in domains else ""
        yield (
            f"Compared with {len(people)} texts of people ({domains}). The p-value is the share of them that has as "
            f"high an energy{worst}."
        )
        yield (
            f'{whom} at most {100 * allowed.rate:g} % is accused wrongly: the verdict is "machine" up to {number} '
            f'{allowed.rate:g}, "people" above p-value {allowed.clear_above:g}, "cannot tell" between.'
        )
    if judgement.warning is not None:
        yield f"Warning: {judgement.warning}."


def write_heat_map(judged: Sequence[Judged], path: str | Path, notes: Iterable[str] = ()) -> None:
    """One page with all texts, each window in its colour, under what is to be said of all of them."""
    said = meaning(own.detection for own in judged)
    page = render("heat_map.html", judged=judged, pieces=pieces, css_colour=css_colour, meaning=said, notes=list(notes))
    atomic_write_text(path, page)
