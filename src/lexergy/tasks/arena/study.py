"""A study: what is compared and by which rules, kept in a folder.

STUDY/
    study.json          rules, systems, seed
    comparisons.jsonl   prompts and the two texts of each, with the systems that wrote them
    annotators.jsonl    who consented, and when
    pages.jsonl         what was shown to whom, and on which side
    votes.jsonl         a row per vote; the last one on a comparison counts
    qualified.json      the bar, once the qualifying round is closed
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from lexergy.errors import LexergyError
from lexergy.files import atomic_write_json, atomic_write_text, canonical_json, hash_of, reading
from lexergy.runs.stages import read_json
from lexergy.tasks.arena.journal import Journal, read_rows

STUDY_FILE = "study.json"
COMPARISONS_FILE = "comparisons.jsonl"

Kind = Literal["pair", "check", "qualifying"]

QUESTION = "Which of the two texts is the more reasonable continuation? It does not matter if a text breaks off."
CONSENT = (
    "In this study you read the beginning of a text and two ways in which it could go on, and say which is the better "
    "one. What is stored are your answers, how long they took and the identifier you came with; nothing else. Taking "
    "part is voluntary: you may stop at any time by closing the page, and come back to it later. Some comparisons have "
    "a known answer, and a few come up twice; that is intended. Some texts were written by programs, and may contain "
    "statements that are wrong or unpleasant."
)


@dataclass(frozen=True)
class Comparison:
    """Two continuations of one prompt. In checks and in the qualifying round the first one is the better."""

    id: str
    kind: Kind
    prompt: str
    systems: tuple[str, str]
    texts: tuple[str, str]
    group: str  # the document of the prompt


@dataclass(frozen=True)
class Rules:
    """How people are asked. The defaults are the paper's (App. A.4), but for ties and repetitions."""

    votes: int = 3  # per pair
    per_page: int = 4  # comparisons, one of which is a check
    pages: int = 10  # of one session, the qualifying round aside
    bar: float | None = None  # accuracy in the qualifying round to go on; None: that of the better half
    ties: bool = True  # whether "no difference" may be answered
    repeat_every: int = 5  # pages, on which a pair comes up again with its sides swapped; 0: never
    question: str = QUESTION
    consent: str = CONSENT
    code: str = ""  # shown at the end
    qualifying_code: str = ""  # shown at the end of the qualifying round


@dataclass(frozen=True)
class Study:
    """What `lexergy arena make` makes."""

    name: str
    seed: int
    systems: tuple[str, ...]
    rules: Rules
    comparisons: tuple[Comparison, ...]
    facts: dict[str, Any]  # where the texts come from, and what was left out

    def of_kind(self, kind: Kind) -> list[Comparison]:
        return [comparison for comparison in self.comparisons if comparison.kind == kind]

    @property
    def id(self) -> str:
        """Names the content, so that votes on another study are told apart."""
        return hash_of([asdict(comparison) for comparison in self.comparisons])


class StudyFolder:
    """The files of a study."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.annotators = Journal(self.folder / "annotators.jsonl")
        self.pages = Journal(self.folder / "pages.jsonl")
        self.votes = Journal(self.folder / "votes.jsonl")
        self.qualified = self.folder / "qualified.json"

    def write(self, study: Study) -> None:
        """Keep a new study; one that people have seen already is left alone."""
        if self.pages.rows():
            raise LexergyError(
                f"people have judged the study {self.folder} already; expected a new folder; choose another `--out`."
            )
        rows = (canonical_json(asdict(comparison)) + "\n" for comparison in study.comparisons)
        atomic_write_text(self.folder / COMPARISONS_FILE, "".join(rows))
        content = {key: value for key, value in asdict(study).items() if key != "comparisons"}
        for journal in (self.annotators, self.pages, self.votes):
            atomic_write_text(journal.path, "")  # so that the folder's entry is on the disk before the first row
        atomic_write_json(self.folder / STUDY_FILE, content)

    def read(self) -> Study:
        content = read_json(self.folder / STUDY_FILE)
        if content is None:
            raise LexergyError(
                f"{self.folder} is not a study; expected a folder made by `lexergy arena make RUN --out {self.folder}`."
            )
        with reading(self.folder, "copy the study again, or make it again"):
            return self._study(content)

    def _study(self, content: dict[str, Any]) -> Study:
        rows = read_rows(self.folder / COMPARISONS_FILE)
        comparisons = (
            Comparison(**row | {"systems": tuple(row["systems"]), "texts": tuple(row["texts"])}) for row in rows
        )
        rules = Rules(**content.pop("rules"))
        return Study(**content | {"systems": tuple(content["systems"])}, rules=rules, comparisons=tuple(comparisons))


def swapped(pair: Sequence[str], is_swapped: bool) -> tuple[str, str]:
    """Both of a pair in the order in which they are shown."""
    first, second = pair
    return (second, first) if is_swapped else (first, second)
