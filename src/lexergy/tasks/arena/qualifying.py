"""The qualifying round: who tells people's text from the LM's well enough to go on (App. A.4, Deng et al. 2020)."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from lexergy.core.text_measures.preferences import better_half
from lexergy.errors import LexergyError
from lexergy.files import atomic_write_json
from lexergy.runs.stages import read_json
from lexergy.tasks.arena.ballots import Slot
from lexergy.tasks.arena.study import Study, StudyFolder


@dataclass(frozen=True)
class Qualified:
    """The bar, and the accuracy of everybody who finished the round."""

    bar: float
    accuracies: dict[str, float]

    def passed(self, annotator: str) -> bool:
        return self.accuracies.get(annotator, -1.0) >= self.bar


def is_right(slot: Slot, choice: str) -> bool:
    """Whether the better text, the first of the comparison, was chosen; no difference is no right answer."""
    return choice == ("second" if slot.swapped else "first")


def accuracy(study: Study, pages: Iterable[tuple[Sequence[Slot], Mapping[int, str]]]) -> float:
    """The share of the qualifying round that was answered rightly."""
    right = sum(
        is_right(slot, choices[place])
        for slots, choices in pages
        for place, slot in enumerate(slots)
        if place in choices
    )
    return right / len(study.of_kind("qualifying"))


def closed_bar(folder: StudyFolder) -> float | None:
    """The bar once the round is closed; None before."""
    content = read_json(folder.qualified)
    return None if content is None else float(content["bar"])


def qualified(study: Study, bar: float | None, accuracies: Mapping[str, float]) -> Qualified:
    """Who goes on: a bar given beforehand, or that of the better half."""
    fixed = study.rules.bar if study.rules.bar is not None else bar
    return Qualified(better_half(list(accuracies.values())) if fixed is None else fixed, dict(accuracies))


def close_qualifying(folder: StudyFolder, accuracies: Mapping[str, float]) -> Qualified:
    """Close the round: from now on the better half of those who finished it go on, and later ones at their bar."""
    study = folder.read()
    if study.rules.bar is not None or not study.of_kind("qualifying"):
        known = "no qualifying round" if study.rules.bar is None else f"the bar {study.rules.bar:g} from the beginning"
        raise LexergyError(f"the study {folder.folder} has {known}; there is nothing to close.")
    if not accuracies:
        raise LexergyError(
            f"nobody has finished the qualifying round of {folder.folder}; expected at least one annotator; "
            "wait until they have."
        )
    result = qualified(study, None, accuracies)
    atomic_write_json(folder.qualified, {"bar": result.bar, "accuracies": result.accuracies})
    return result
