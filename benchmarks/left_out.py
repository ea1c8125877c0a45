"""Rows of people's and an assistant's texts, and what is left out of the fit so that a row is unseen."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from assistant_wording import FLOOR, SHARE, Text, fit_wording, scale
from zero_shot import LAST, SAMPLES

from lexergy.core.detection.assistant import AssistantScore

PER_GROUP = 100  # texts of a public file that are fitted on
FEWEST = 10  # texts of either side in a row
ONE_SOURCE = (
    ("bbc", "glimpse-news", "imbd-news", "l2r-news"),
    ("ghostbuster-stories", "glimpse-stories", "l2r-stories"),
    ("brown",),
)
MAKERS = ("claude", "gpt", "gemini", "deepseek", "grok", "kimi", "llama", "mistral", "qwen", "glm", "ling")
BESIDE = {"slop": "ghostbuster", "today": "ghostbuster", "imbd": "glimpse"}  # whose people's texts a collection has


@dataclass(frozen=True)
class Row:
    people: Path
    machines: Path

    @property
    def collection(self) -> str:
        return collection(self.machines.stem)


def collection(name: str) -> str:
    found = name.split("-")[0]
    if name.startswith(SAMPLES):
        return name.removeprefix(SAMPLES).removesuffix(LAST)
    if name.startswith("later-"):
        return "later"
    return (
        {"imbd": "glimpse"}.get(found, found)
        if found in ("ghostbuster", "glimpse", "imbd", "slop", "l2r", "today")
        else "ours"
    )


def rows_of(asked: Path, sets: Path | None = None) -> list[Row]:
    """Of the public collections, and of `zero_shot.py sets` an assistant's, and the last samples of LMs."""
    rows = []
    for path in sorted(asked.glob("*.jsonl")):
        if not path.stem.endswith("-people"):
            found, kind, *_ = path.stem.split("-")
            rows.append(Row(asked / f"{BESIDE.get(found, found)}-{kind}-people.jsonl", path))
    named = json.loads(sets.read_text()) if sets else {}
    ours = [Row(*(Path(own[side][0]) for side in ("people", "machines"))) for own in named.values()]
    return rows + [row for row in ours if row.machines.stem.startswith(("assistant", "later", SAMPLES))]


def same_people(group: str, asked: str) -> bool:
    """Whether people's texts are of the source that is asked about; a collection's are all of one."""
    asked = asked.removeprefix("later-")
    if collection(asked) != "ours" and collection(group) == collection(asked):
        return True
    return group.split("-")[0] == asked.split("-")[0] or any(
        group.startswith(source) and asked.startswith(source) for source in ONE_SOURCE
    )


def same_machines(group: str, asked: str) -> bool:
    """Whether an assistant's texts are of the collection or the maker asked about; of ours, of the kind."""
    if asked.startswith(SAMPLES):
        return False
    if collection(asked) in ("ours", "later"):
        return f"assistant-{group}" == asked
    return collection(group) == collection(asked) or (maker(group) == maker(asked) and collection(group) != "ours")


def maker(name: str) -> str:
    return next((own for own in MAKERS if own in name), name)


@dataclass(frozen=True)
class Fitting:
    people: Sequence[Text]
    machines: Sequence[Text]

    def without(self, row: Row, makers: bool = True) -> "Fitting":
        asked = row.machines.stem
        same: Callable[[str], bool] = lambda group: same_machines(group, asked)  # noqa: E731
        if not makers and collection(asked) not in ("ours", "later"):
            same = lambda group: collection(group) == collection(asked)  # noqa: E731
        return Fitting(
            tuple(own for own in self.people if not same_people(own.group, row.people.stem)),
            tuple(own for own in self.machines if not same(own.group)),
        )


@cache
def fitted(people: tuple[Text, ...], machines: tuple[Text, ...]) -> AssistantScore:
    means, deviations = (tuple(own.values()) for own in scale())
    return AssistantScore(means, deviations, fit_wording(people, machines), SHARE, FLOOR)


def auc(people: np.ndarray, machines: np.ndarray) -> np.ndarray:  # (..., n), (..., m) -> (...)
    difference = machines[..., :, None] - people[..., None, :]
    return ((difference > 0) + 0.5 * (difference == 0)).mean((-1, -2))
