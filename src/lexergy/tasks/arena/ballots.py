"""Who is asked what: votes still to be given, and pages of comparisons, by the study's seed."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass

import numpy as np

from lexergy.runs.stages import stage_seed
from lexergy.tasks.arena.study import Comparison, Study


@dataclass(frozen=True)
class Ballot:
    """A vote that the study asks for: a pair, and which of its texts is shown second instead of first."""

    number: int
    comparison: str
    swapped: bool


@dataclass(frozen=True)
class Slot:
    """A comparison as it is shown on a page; `ballot` is None where no vote of the study is asked for."""

    comparison: str
    swapped: bool
    ballot: int | None = None
    repeats: bool = False  # a pair that the annotator has judged before, the other way round


def balanced_sides(num_comparisons: int, votes: int, seed: int) -> np.ndarray:  # (S, votes) bool
    """Which ballots are swapped: half of a comparison's votes, and half of all, up to one for odd numbers."""
    first = np.arange(num_comparisons) % 2
    np.random.default_rng(seed).shuffle(first)
    return (first[:, None] + np.arange(votes)) % 2 == 1


def all_ballots(study: Study) -> list[Ballot]:
    """All votes that a study asks for, in rounds: every pair once, by lot, before any pair again."""
    pairs, votes = study.of_kind("pair"), study.rules.votes
    sides = balanced_sides(len(pairs), votes, stage_seed(study.seed, "sides"))
    generator = np.random.default_rng(stage_seed(study.seed, "ballots"))
    order = [(pair, vote) for vote in range(votes) for pair in generator.permutation(len(pairs)).tolist()]
    return [Ballot(number, pairs[pair].id, bool(sides[pair, vote])) for number, (pair, vote) in enumerate(order)]


def qualifying_pages(study: Study, annotator: str) -> list[list[Slot]]:
    """The qualifying round: the same comparisons for everybody, in an order and with sides of their own."""
    comparisons, size = study.of_kind("qualifying"), study.rules.per_page
    generator = np.random.default_rng(stage_seed(study.seed, f"qualifying {annotator}"))
    sides = balanced_sides(len(comparisons), 1, int(generator.integers(2**32)))[:, 0].tolist()
    order = generator.permutation(len(comparisons)).tolist()
    slots = [Slot(comparisons[place].id, sides[place]) for place in order]
    return [slots[start : start + size] for start in range(0, len(slots), size)]


def next_page(
    study: Study,
    annotator: str,
    earlier: list[list[Slot]],  # the annotator's main pages so far
    open_ballots: Iterable[Ballot],
    seen_prompts: Collection[str],
) -> list[Slot]:
    """The annotator's next page: open ballots on prompts that are new to them, a check, now and then a repetition.

    Empty when the study has no ballot left for them.
    """
    number, rules = len(earlier) + 1, study.rules
    generator = np.random.default_rng(stage_seed(study.seed, f"page {number} {annotator}"))
    repeated = _repetition(earlier) if rules.repeat_every and number % rules.repeat_every == 0 else []
    check = _check(study, annotator, number, generator)
    comparisons = {comparison.id: comparison for comparison in study.comparisons}
    seen = {*seen_prompts, *(comparisons[slot.comparison].prompt for slot in check)}
    fresh: list[Slot] = []
    for ballot in open_ballots:
        if len(fresh) + len(repeated) + len(check) >= rules.per_page:
            break
        prompt = comparisons[ballot.comparison].prompt
        if prompt not in seen:
            seen.add(prompt)
            fresh.append(Slot(ballot.comparison, ballot.swapped, ballot.number))
    if not fresh:
        return []
    slots = fresh + repeated + check
    return [slots[place] for place in generator.permutation(len(slots)).tolist()]


def _repetition(earlier: list[list[Slot]]) -> list[Slot]:
    """The first pair of the pages before the last that has not come up again yet, its sides swapped."""
    again = {slot.comparison for page in earlier for slot in page if slot.repeats}
    judged = [slot for page in earlier[:-1] for slot in page if slot.ballot is not None]
    waiting = [slot for slot in judged if slot.comparison not in again]
    return [Slot(slot.comparison, not slot.swapped, repeats=True) for slot in waiting[:1]]


def _check(study: Study, annotator: str, number: int, generator: np.random.Generator) -> list[Slot]:
    """The check of a page: each annotator goes through all of them in an order of their own."""
    checks: list[Comparison] = study.of_kind("check")
    if not checks:
        return []
    order = np.random.default_rng(stage_seed(study.seed, f"checks {annotator}")).permutation(len(checks))
    return [Slot(checks[int(order[(number - 1) % len(checks)])].id, bool(generator.integers(2)))]
