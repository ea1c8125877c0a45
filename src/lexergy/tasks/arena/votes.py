"""Votes as they count: joined with what was shown, and which of them are kept."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lexergy.errors import LexergyError
from lexergy.tasks.arena.ballots import Slot
from lexergy.tasks.arena.journal import read_rows
from lexergy.tasks.arena.qualifying import Qualified, accuracy, closed_bar, is_right, qualified
from lexergy.tasks.arena.study import Comparison, Study, StudyFolder, swapped

KEPT = "kept"
TIE = "tie"


@dataclass(frozen=True)
class JudgedVote:
    """One answer. `status` says whether it counts for a pair, or why it does not."""

    annotator: str
    page: int
    slot: int
    kind: str  # pair, repetition, check, qualifying
    comparison: str
    group: str
    systems: tuple[str, str]  # in the study's order
    first: str  # the system shown first
    second: str
    choice: str  # first, second, tie
    winner: str | None  # None for a tie
    seconds: float | None
    is_right: bool | None  # where the answer is known
    status: str


@dataclass(frozen=True)
class _Answered:
    """A page that was shown, and the last answer to each of its comparisons."""

    annotator: str
    number: int
    slots: Sequence[Slot]
    is_qualifying: bool
    answers: dict[int, dict[str, Any]]


@dataclass(frozen=True)
class JudgedVotes:
    """All answers, and who goes on after the qualifying round; None without one."""

    votes: tuple[JudgedVote, ...]
    qualified: Qualified | None

    def kept(self) -> list[JudgedVote]:
        return [vote for vote in self.votes if vote.status == KEPT]

    def of_kind(self, kind: str) -> list[JudgedVote]:
        return [vote for vote in self.votes if vote.kind == kind]


def judged_votes(folder: StudyFolder, files: Sequence[Path] = ()) -> JudgedVotes:
    """All votes of a study: those of its server, and those that were downloaded from its HTML files."""
    study = folder.read()
    pages = _answered_pages(folder, study, files)
    accuracies = qualifying_accuracies(study, pages)
    passed = qualified(study, closed_bar(folder), accuracies) if study.of_kind("qualifying") else None
    comparisons = {comparison.id: comparison for comparison in study.comparisons}
    votes = [
        _judged(page, place, comparisons, _status(page, comparisons, passed))
        for page in pages
        for place in sorted(page.answers)
    ]
    return JudgedVotes(tuple(votes), passed)


def finished_qualifying(folder: StudyFolder, files: Sequence[Path] = ()) -> dict[str, float]:
    """The accuracy of everybody who has answered the whole qualifying round."""
    study = folder.read()
    return qualifying_accuracies(study, _answered_pages(folder, study, files))


def qualifying_accuracies(study: Study, pages: Iterable[_Answered]) -> dict[str, float]:
    rounds: dict[str, list[_Answered]] = {}
    for page in pages:
        if page.is_qualifying:
            rounds.setdefault(page.annotator, []).append(page)
    whole = len(study.of_kind("qualifying"))
    return {
        annotator: accuracy(
            study, [(page.slots, {place: row["choice"] for place, row in page.answers.items()}) for page in own]
        )
        for annotator, own in rounds.items()
        if sum(len(page.answers) for page in own) == whole
    }


def _answered_pages(folder: StudyFolder, study: Study, files: Sequence[Path]) -> list[_Answered]:
    pages: dict[str, list[_Answered]] = {}
    for row in folder.pages.rows():
        own = pages.setdefault(row["annotator"], [])
        slots = [Slot(**slot) for slot in row["slots"]]
        own.append(_Answered(row["annotator"], len(own) + 1, slots, row["is_qualifying"], {}))
    for place, row in _rows(folder, files):
        if row.get("study") != study.id:
            raise LexergyError(
                f"{place} is a vote on the study {row.get('study')}; expected {study.id}, that of {folder.folder}; "
                "give the votes of this study only."
            )
        try:
            page = pages[row["annotator"]][row["page"] - 1]
            page.answers[row["slot"]] = {"choice": row["choice"], "seconds": row["seconds"]}
            page.slots[row["slot"]]
        except (KeyError, IndexError, TypeError):
            raise LexergyError(
                f"{place} is a vote on a page that {folder.pages.path} does not have; expected votes on what was "
                "shown; keep that file with the study."
            ) from None
    return [page for own in pages.values() for page in own]


def _rows(folder: StudyFolder, files: Sequence[Path]) -> Iterable[tuple[str, dict[str, Any]]]:
    for path in (folder.votes.path, *files):
        rows = folder.votes.rows() if path == folder.votes.path else read_rows(path)
        yield from ((f"{path}:{number}", row) for number, row in enumerate(rows, start=1))


def _status(page: _Answered, comparisons: dict[str, Comparison], passed: Qualified | None) -> str:
    """What becomes of the page's votes on pairs."""
    if passed is not None and not passed.passed(page.annotator):
        return "not qualified"
    checks = [place for place, slot in enumerate(page.slots) if comparisons[slot.comparison].kind == "check"]
    if any(place not in page.answers for place in checks):
        return "check not answered"
    if not all(is_right(page.slots[place], page.answers[place]["choice"]) for place in checks):
        return "check failed"
    return KEPT


def _judged(page: _Answered, place: int, comparisons: dict[str, Comparison], status: str) -> JudgedVote:
    slot, answer = page.slots[place], page.answers[place]
    comparison, choice = comparisons[slot.comparison], answer["choice"]
    first, second = swapped(comparison.systems, slot.swapped)
    kind = "repetition" if slot.repeats else comparison.kind
    known = comparison.kind != "pair"
    return JudgedVote(
        annotator=page.annotator,
        page=page.number,
        slot=place,
        kind=kind,
        comparison=comparison.id,
        group=comparison.group,
        systems=comparison.systems,
        first=first,
        second=second,
        choice=choice,
        winner={"first": first, "second": second}.get(choice),
        seconds=answer["seconds"],
        is_right=is_right(slot, choice) if known else None,
        status=kind if known or (slot.repeats and status == KEPT) else status,
    )
