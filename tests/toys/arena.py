"""Studies of made-up texts, and annotators who prefer a system with a known chance."""

import json
import random
from pathlib import Path

import numpy as np

from lexergy.tasks.arena.continuations import Continued, Material
from lexergy.tasks.arena.making import make_study
from lexergy.tasks.arena.sessions import Sessions, Standing
from lexergy.tasks.arena.study import Rules, Study, StudyFolder
from toys.texts import UNION_WORDS


def material(pairs=24, qualifying=8, checks=4, systems=("weak", "strong")) -> Material:
    """Texts that end in the name of who wrote them, so that a toy annotator can tell them apart."""
    words = random.Random(0)

    def continued(number, names):
        texts = {name: f" {' '.join(words.choices(UNION_WORDS, k=12))} by {name}" for name in names}
        return Continued(f"Prompt {number} is", f"document {number // 2}", texts)

    return Material(
        systems=tuple(systems),
        pairs=[continued(number, systems) for number in range(pairs)],
        qualifying=[continued(1000 + number, ("people", "weak")) for number in range(qualifying)],
        checks=[continued(2000 + number, ("people",)) for number in range(checks)],
        facts={"source": "toys"},
    )


def write_study(folder: Path, *, seed=0, rules=None, **sizes) -> StudyFolder:
    study = StudyFolder(folder)
    study.write(make_study("toy", material(**sizes), rules or Rules(), seed))
    return study


def answer(generator: np.random.Generator, shown: dict, study: Study, rate: float, skill: float, first: float) -> str:
    """A vote: people's own text with chance `skill`, else the stronger system's with chance `rate`.

    With chance `first`, whatever stands first.
    """
    texts = [shown["first"], shown["second"]]
    known = [text.strip().endswith("by people") for text in texts]
    if not any(known) and generator.random() < first:
        return "first"
    if any(known):
        better, chance = known.index(True), skill
    else:
        ranks = [next(rank for rank, name in enumerate(study.systems) if text.endswith(f"by {name}")) for text in texts]
        better, chance = int(np.argmax(ranks)), rate
    return ("first", "second")[better if generator.random() < chance else 1 - better]


def play(
    sessions: Sessions, annotator: str, seed: int, *, rate=0.8, skill=1.0, first=0.0, ties=0.0, pages: int | None = None
) -> Standing:
    """Judge until there is nothing left, or so many pages."""
    generator = np.random.default_rng([seed, 77])
    sessions.consent(annotator)
    done = 0
    while (standing := sessions.standing(annotator)) is Standing.JUDGING and done != pages:
        page = sessions.shown(annotator, sessions.num_pages(annotator))
        for slot, shown in enumerate(page["comparisons"]):
            choice = answer(generator, shown, sessions.study, rate, skill, first)
            is_pair = "people" not in shown["first"][-9:] + shown["second"][-9:]
            if is_pair and generator.random() < ties:
                choice = "tie"
            sessions.vote(annotator, page["number"], slot, choice, 1.5)
        done += 1
    return standing


def write_continuations(path: Path, texts: dict[str, str]) -> Path:
    path.write_text("".join(json.dumps({"prompt": prompt, "text": text}) + "\n" for prompt, text in texts.items()))
    return path
