"""Which detector judges: one that was trained, or an LM as it is; and on whose texts its false positives are known."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from lexergy.core.detection.conformal import check_level
from lexergy.data.detection.style import style_of
from lexergy.data.texts import PlacedText, Unreadable, named, read_texts
from lexergy.errors import LexergyError
from lexergy.models.detection.default import (
    LM,
    default_scorer,
    fitted_to,
    is_default,
    tells_sentences,
    zero_shot_detector,
)
from lexergy.models.detection.detector import Detection, Detector
from lexergy.models.detection.people import FalsePositives, PeopleTexts
from lexergy.progress import progress_bar
from lexergy.runs.fingerprint import fingerprint

OWN = "own"  # the domain of texts that a person calibrates on
USUAL = FalsePositives(0.05)  # where nobody says otherwise and an energy alone would say nothing


class Guarantee(NamedTuple):
    """How many people may be accused, and the texts of people from which it is known who would be."""

    people: PeopleTexts
    allowed: FalsePositives


class OpenDetector(NamedTuple):
    detector: Detector
    guarantee: Guarantee | None


@dataclass(frozen=True)
class Opening:
    """The trained detector `model`; without one, a score of one LM or two.

    False positives are `allowed` at a rate, which holds for texts like those of `people`, files of the user's own, or
    else for those stored with the detector, of one `domain` where it is named.
    """

    model: str | Path | None = None
    lms: tuple[str, ...] = ()
    scorer: str | None = None
    allowed: FalsePositives | None = None
    people: tuple[str, ...] = ()
    domain: str | None = None
    text_field: str = "text"

    def __post_init__(self) -> None:
        if self.model is not None and (self.lms or self.scorer):
            raise LexergyError(
                f"the detector in `{self.model}` reads an LM or encoder of its own; `--lm` and `--scorer` are for "
                "detection without training; leave them out, or the detector."
            )
        if self.people and self.domain:
            raise LexergyError(
                "`--domain` chooses among the texts stored with a detector; leave it out with texts of your own in "
                "`--calibrate`."
            )

    def open(self) -> OpenDetector:
        detector = self._detector()
        if self.people:
            people = people_texts(detector, self.people, self.text_field)
            detector = Detector(detector.reader, replace(detector.settings, people=people))
        untrained = detector.settings.text is None
        allowed = self.allowed or (USUAL if self.people or (untrained and detector.settings.people) else None)
        if allowed is None and self.domain is None:
            return OpenDetector(detector, None)
        guarantee = Guarantee(_need_people(detector, self.domain), allowed or USUAL)
        check_level(guarantee.allowed.rate, len(guarantee.people))  # before texts are read
        return OpenDetector(detector, guarantee)

    def _detector(self) -> Detector:
        if self.model is not None:
            return Detector.from_pretrained(self.model)
        return zero_shot_detector(self.lms or (LM,), self.scorer)

    @property
    def tells_sentences(self) -> bool:
        """Whether it says which sentences are a machine's: a trained detector does, and so does the default."""
        lms = self.lms or (LM,)
        fitted = is_default(lms) and tells_sentences(self.scorer or default_scorer(lms))
        return self.model is not None or fitted

    @property
    def key(self) -> dict[str, Any]:
        """What decides the energies."""
        if self.model is not None:
            return {"model": fingerprint(str(self.model))}
        lms = self.lms or (LM,)
        scorer = self.scorer or default_scorer(lms)
        fitted = fitted_to(scorer)
        return {
            "lms": lms,
            "content": [fingerprint(lm) for lm in lms],
            "scorer": scorer,
            **({} if fitted is None else {"fitted": fitted}),
        }


def people_texts(detector: Detector, sources: Sequence[str], text_field: str = "text") -> PeopleTexts:
    """The texts of people in some files and folders (see `read_texts`), as the detector judges them."""
    read = list(read_texts(sources, text_field=text_field))
    unreadable = [entry for entry in read if isinstance(entry, Unreadable)]
    if unreadable:
        raise LexergyError(f"texts of people to calibrate on cannot be read. {named(unreadable)}")
    texts = [entry.text for entry in read if isinstance(entry, PlacedText)]
    judged: list[Detection] = []
    with progress_bar("texts of people", len(texts), enabled=len(texts) > 1) as bar:
        for detection in detector.detect(texts):
            if isinstance(detection, Detection):  # one too short to be judged says nothing
                judged.append(detection)
            bar.advance(1)
    return PeopleTexts(
        energies=tuple(detection.energy for detection in judged),
        tokens=tuple(detection.tokens for detection in judged),
        domains=tuple(OWN for _ in judged),
        styles=tuple(style_of(detection.text) for detection in judged),
    )


def _need_people(detector: Detector, domain: str | None) -> PeopleTexts:
    people = detector.settings.people
    if people is None:
        raise LexergyError(
            "no texts of people are known to this detector, so that nothing can be said about its false positives; "
            "give some, like those you ask about, with `--calibrate`."
        )
    return people if domain is None else people.of_domain(domain)
