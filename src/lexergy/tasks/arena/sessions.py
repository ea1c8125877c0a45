"""Annotators at work: pages handed out, votes taken, all of it on disk before it is confirmed."""

import re
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

from lexergy.errors import LexergyError
from lexergy.tasks.arena.ballots import Slot, all_ballots, next_page, qualifying_pages
from lexergy.tasks.arena.qualifying import accuracy, closed_bar
from lexergy.tasks.arena.study import StudyFolder, swapped

ANNOTATOR = re.compile(r"[A-Za-z0-9_.-]{1,64}")
CHOICES = ("first", "second", "tie")
LEASE_SECONDS = 3600.0


class Standing(StrEnum):
    """Where an annotator is."""

    CONSENT = "consent"
    JUDGING = "judging"
    WAITING = "waiting"  # for the qualifying round to be closed
    NOT_QUALIFIED = "not_qualified"
    FINISHED = "finished"


@dataclass
class Page:
    """A page that was handed out, and the votes on it so far."""

    slots: list[Slot]
    is_qualifying: bool
    expires: float | None  # from when on what has no vote is somebody else's; None: never, it is in a file
    choices: dict[int, str] = field(default_factory=dict)  # of each slot that has one

    @property
    def is_complete(self) -> bool:
        return len(self.choices) == len(self.slots)


class Sessions:
    """All annotators of a study, as its files have them; safe for many threads of one process."""

    def __init__(self, folder: StudyFolder, clock: Callable[[], float] = time.time) -> None:
        self.folder, self.study, self._clock = folder, folder.read(), clock
        self._lock = threading.Lock()
        self._comparisons = {comparison.id: comparison for comparison in self.study.comparisons}
        self._ballots = all_ballots(self.study)
        self._pages: dict[str, list[Page]] = {row["annotator"]: [] for row in folder.annotators.rows()}
        for row in folder.pages.rows():
            slots = [Slot(**slot) for slot in row["slots"]]
            self._pages.setdefault(row["annotator"], []).append(Page(slots, row["is_qualifying"], row["expires"]))
        for row in folder.votes.rows():
            self._pages[row["annotator"]][row["page"] - 1].choices[row["slot"]] = row["choice"]

    def consent(self, annotator: str) -> None:
        """Somebody agrees to take part."""
        check_annotator(annotator)
        with self._lock:
            if annotator not in self._pages:
                self._begin(annotator)

    def standing(self, annotator: str) -> Standing:
        """Where an annotator is; hands out the next page when the last one is complete and there is one."""
        check_annotator(annotator)
        with self._lock:
            if annotator not in self._pages:
                return Standing.CONSENT
            return self._advance(annotator)

    def num_pages(self, annotator: str) -> int:
        """How many pages were handed out to an annotator."""
        with self._lock:
            return len(self._pages.get(annotator, []))

    def all_pages(self) -> int:
        """How many pages a session has, the qualifying round included."""
        qualifying = len(qualifying_pages(self.study, ""))
        return qualifying + self.study.rules.pages

    def hand_out_all(self, annotator: str) -> list[dict[str, Any]]:
        """All pages of a new annotator at once, for a file of their own: nobody else is asked for these votes."""
        check_annotator(annotator)
        with self._lock:
            if annotator in self._pages:
                raise LexergyError(f"`{annotator}` has begun already; expected a new annotator; choose another name.")
            self._begin(annotator)
            for slots in qualifying_pages(self.study, annotator):
                self._hand_out(annotator, slots, is_qualifying=True, lease=None)
            main: list[list[Slot]] = []
            while len(main) < self.study.rules.pages and (slots := self._compose(annotator, main)):
                self._hand_out(annotator, slots, is_qualifying=False, lease=None)
                main.append(slots)
        return [self.shown(annotator, number + 1) for number in range(self.num_pages(annotator))]

    def shown(self, annotator: str, number: int) -> dict[str, Any]:
        """A page as the annotator sees it: texts without their writers, and the answers so far."""
        with self._lock:
            page = self._page(annotator, number)
            return {
                "number": number,
                "is_qualifying": page.is_qualifying,
                "comparisons": [self._blind(slot) for slot in page.slots],
                "choices": [page.choices.get(place) for place in range(len(page.slots))],
            }

    def vote(self, annotator: str, number: int, slot: int, choice: str, seconds: float | None = None) -> None:
        """Take a vote; it is on the disk when this returns. A second vote on the same comparison replaces the first."""
        if choice not in CHOICES or (choice == "tie" and not self.study.rules.ties):
            allowed = CHOICES if self.study.rules.ties else CHOICES[:2]
            raise LexergyError(f"the vote is `{choice}`; expected one of {', '.join(allowed)}.")
        with self._lock:
            page = self._page(annotator, number)
            if not 0 <= slot < len(page.slots):
                raise LexergyError(f"page {number} has no comparison {slot}; expected 0 to {len(page.slots) - 1}.")
            self.folder.votes.append(
                {
                    "study": self.study.id,
                    "annotator": annotator,
                    "page": number,
                    "slot": slot,
                    "choice": choice,
                    "seconds": seconds,
                    "time": self._clock(),
                }
            )
            page.choices[slot] = choice

    def _begin(self, annotator: str) -> None:
        self.folder.annotators.append({"annotator": annotator, "time": self._clock()})
        self._pages[annotator] = []

    def _advance(self, annotator: str) -> Standing:
        pages = self._pages[annotator]
        if pages and not pages[-1].is_complete:
            return Standing.JUDGING
        done = [page for page in pages if page.is_qualifying]
        round_of_all = qualifying_pages(self.study, annotator)
        if len(done) < len(round_of_all):
            return self._hand_out(annotator, round_of_all[len(done)], is_qualifying=True)
        if round_of_all:
            bar = self.study.rules.bar if self.study.rules.bar is not None else closed_bar(self.folder)
            if bar is None:
                return Standing.WAITING
            if accuracy(self.study, [(page.slots, page.choices) for page in done]) < bar:
                return Standing.NOT_QUALIFIED
        main = [page.slots for page in pages if not page.is_qualifying]
        if len(main) >= self.study.rules.pages:
            return Standing.FINISHED
        return self._hand_out(annotator, self._compose(annotator, main), is_qualifying=False)

    def _compose(self, annotator: str, main: list[list[Slot]]) -> list[Slot]:
        seen = {self._comparisons[slot.comparison].prompt for page in self._pages[annotator] for slot in page.slots}
        taken = self._taken()
        still_open = (ballot for ballot in self._ballots if ballot.number not in taken)
        return next_page(self.study, annotator, main, still_open, seen)

    def _taken(self) -> set[int]:
        """Ballots that have a vote, or lie before somebody who may still give one."""
        now = self._clock()
        return {
            slot.ballot
            for pages in self._pages.values()
            for page in pages
            for place, slot in enumerate(page.slots)
            if slot.ballot is not None and (place in page.choices or page.expires is None or page.expires > now)
        }

    def _hand_out(
        self, annotator: str, slots: list[Slot], is_qualifying: bool, lease: float | None = LEASE_SECONDS
    ) -> Standing:
        if not slots:
            return Standing.FINISHED
        now = self._clock()
        page = Page(slots, is_qualifying, None if lease is None else now + lease)
        row = {"annotator": annotator, "is_qualifying": is_qualifying, "time": now, "expires": page.expires}
        sides = [swapped(self._comparisons[slot.comparison].systems, slot.swapped) for slot in slots]
        self.folder.pages.append({**row, "slots": [asdict(slot) for slot in slots], "sides": sides})
        self._pages[annotator].append(page)
        return Standing.JUDGING

    def _blind(self, slot: Slot) -> dict[str, str]:
        comparison = self._comparisons[slot.comparison]
        first, second = swapped(comparison.texts, slot.swapped)
        return {"prompt": comparison.prompt, "first": first, "second": second}

    def _page(self, annotator: str, number: int) -> Page:
        pages = self._pages.get(annotator, [])
        if not 1 <= number <= len(pages):
            raise LexergyError(
                f"`{annotator}` has no page {number}; expected 1 to {len(pages)}, the pages handed out so far."
            )
        return pages[number - 1]


def check_annotator(annotator: str) -> None:
    if not ANNOTATOR.fullmatch(annotator):
        raise LexergyError(
            f"the annotator is {annotator[:80]!r}; expected 1 to 64 letters, digits, dots, dashes or underscores."
        )
