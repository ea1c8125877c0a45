"""All attacks by name, those that need a model among them, and which of them a bench carries out."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from lexergy.data.detection.attacks import TEXT_ATTACKS, Attack
from lexergy.data.detection.attacks.places import check_strength
from lexergy.data.detection.sentences import spliced
from lexergy.errors import LexergyError
from lexergy.models.causal.lm import CausalLM
from lexergy.models.detection.detector import Detector
from lexergy.models.detection.readers import EncoderReader
from lexergy.models.remote.opening import open_lm
from lexergy.tasks.detection.attacks.gradient import gradient_guided
from lexergy.tasks.detection.attacks.paraphrase import paraphrased
from lexergy.tasks.detection.attacks.words import replaced_words

MIXED, WORDS, PARAPHRASE, GRADIENT = "mixed", "words", "paraphrase", "gradient"


class Place(NamedTuple):
    """The usual strength of an attack, and of what it is a share."""

    strength: float
    places: str


PLACES: dict[str, Place] = {
    **{name: Place(attack.strength, attack.places) for name, attack in TEXT_ATTACKS.items()},
    MIXED: Place(0.5, "sentences, replaced by people's"),
    WORDS: Place(0.5, "words of four small letters or more"),
    PARAPHRASE: Place(1.0, "sentences"),
    GRADIENT: Place(0.1, "tokens"),
}
"""Every attack that has a name, in the order of a report."""


@dataclass(frozen=True)
class AttackChoice:
    """Which attacks: those named, or all for which there is a model; at one strength, or each at its usual one."""

    names: tuple[str, ...] | None = None
    strength: float | None = None
    replacer: str | None = None  # LM that proposes words
    paraphraser: str | None = None  # LM with a chat template

    def __post_init__(self) -> None:
        unknown = [name for name in self.names or () if name not in PLACES]
        if unknown or self.names == ():
            given = f"`{unknown[0]}`" if unknown else "none"
            raise LexergyError(f"the attack is {given}; expected some of: {', '.join(PLACES)}.")
        if self.strength is not None:
            check_strength(self.strength)
        for name, model, option in (
            (WORDS, self.replacer, "--replacer"),
            (PARAPHRASE, self.paraphraser, "--paraphraser"),
        ):
            if name in (self.names or ()) and model is None:
                raise LexergyError(
                    f"the attack `{name}` needs an LM; name it with `{option}`, or leave the attack out."
                )

    def chosen(self, detector: Detector) -> list[str]:
        """The names, in the table's order."""
        can = {
            WORDS: self.replacer is not None,
            PARAPHRASE: self.paraphraser is not None,
            GRADIENT: isinstance(detector.reader, EncoderReader),
        }
        if self.names is not None:
            return [name for name in PLACES if name in self.names]
        return [name for name in PLACES if can.get(name, True)]

    def strength_of(self, name: str) -> float:
        return PLACES[name].strength if self.strength is None else self.strength

    def model_of(self, name: str) -> str | None:
        """The LM that an attack asks."""
        return {WORDS: self.replacer, PARAPHRASE: self.paraphraser}.get(name)

    def attack(self, name: str, detector: Detector, guests: Mapping[str, str]) -> Attack:
        """The function of this name; `guests` are people's texts by the machine texts into which they go."""
        if name == MIXED:
            return partial(_mixed, guests)
        if name == GRADIENT:
            return gradient_guided(detector)
        model = self.model_of(name)
        if model is None:
            return TEXT_ATTACKS[name].apply
        return replaced_words(CausalLM.from_pretrained(model)) if name == WORDS else paraphrased(open_lm(model))


def _mixed(guests: Mapping[str, str], text: str, strength: float, seed: int) -> str:
    return spliced(text, guests[text], True, strength, seed).text


def guests_of(machines: Sequence[tuple[str, str]], people: Sequence[tuple[str, str]]) -> dict[str, str]:
    """For each machine text the people's text of its group, or the next in turn: (text, group) each."""
    by_group = {group: text for text, group in reversed(people)}
    return {text: by_group.get(group, people[number % len(people)][0]) for number, (text, group) in enumerate(machines)}
