"""How many prompts a comparison by people needs, and what a given number can show."""

import math
from typing import NamedTuple

import numpy as np
from scipy.stats import betabinom, binom

from lexergy.errors import LexergyError

MOST_SENTENCES = 20_000


class SentenceOutcome(NamedTuple):
    """How likely the votes on a sentence that has any are fewer, as many, or more for the first system."""

    less: float
    equal: float
    more: float
    asked: float  # that any vote is left


def sentence_outcome(
    rate: float, votes: int, *, ties: float = 0.0, dropped: float = 0.0, correlation: float = 0.0
) -> SentenceOutcome:
    """What so many votes on a sentence come to when a decided vote is for the second system with chance `rate`.

    A vote is dropped with chance `dropped`, and one that is left is a tie with chance `ties`. Sentences differ: the
    chance of a vote is Beta-distributed over them, with intraclass correlation `correlation`; k decided votes are
    Beta-binomial then, and binomial where it is 0.
    """
    _check_shares(rate=rate, ties=ties, dropped=dropped, correlation=correlation)
    less = equal = more = 0.0
    for kept in range(1, votes + 1):
        for decided in range(kept + 1):
            chance = binom.pmf(kept, votes, 1 - dropped) * binom.pmf(decided, kept, 1 - ties)
            second = np.arange(decided + 1)
            shares = _wins(second, decided, rate, correlation)
            less += float(chance * shares[2 * second > decided].sum())
            equal += float(chance * shares[2 * second == decided].sum())
            more += float(chance * shares[2 * second < decided].sum())
    asked = 1 - dropped**votes
    return SentenceOutcome(less / asked, equal / asked, more / asked, asked)


def _wins(second: np.ndarray, decided: int, rate: float, correlation: float) -> np.ndarray:  # (k + 1,)
    if correlation == 0 or decided < 2:
        return np.asarray(binom.pmf(second, decided, rate))
    spread = (1 - correlation) / correlation
    return np.asarray(betabinom.pmf(second, decided, rate * spread, (1 - rate) * spread))


def _check_shares(**shares: float) -> None:
    for name, value in shares.items():
        low = name == "rate"
        if not (0 < value < 1 if low else 0 <= value < 1):
            raise LexergyError(
                f"`{name}` is {value:g}; expected a share, {'more than 0' if low else 'at least 0'} and below 1."
            )


def power(num_sentences: np.ndarray, less: float, level: float = 0.05) -> np.ndarray:  # (n,) -> (n,)
    """The chance that a one-sided binomial test of "<" against 1/2 rejects at `level`, exactly.

    P(K >= k | Binomial(n, less)) with the smallest k for which P(K >= k | Binomial(n, 1/2)) <= level.
    """
    critical = binom.isf(level, num_sentences, 0.5) + 1
    return np.asarray(binom.sf(critical - 1, num_sentences, less))


def sentences_needed(less: float, wanted: float = 0.8, level: float = 0.05) -> int | None:
    """The smallest number from which on the test has the `wanted` power; None where 20,000 would not do.

    Exact power has teeth: a sentence more may lower it. From this number on it never falls below again.
    """
    numbers = np.arange(1, MOST_SENTENCES + 1)
    short = np.flatnonzero(power(numbers, less, level) < wanted)
    needed = int(short[-1]) + 2 if len(short) else 1
    return needed if needed <= MOST_SENTENCES else None


class StudyPlan(NamedTuple):
    """What a study of two systems takes; None where no number of prompts would do."""

    outcome: SentenceOutcome
    prompts: int | None
    power: float | None  # of the one-sided test with so many prompts
    votes: int | None
    people: int | None


def plan_study(
    outcome: SentenceOutcome,
    votes: int,  # on each pair
    votes_per_person: int,
    *,
    prompts: int | None = None,
    wanted: float = 0.8,
    level: float = 0.05,
) -> StudyPlan:
    """The prompts that are needed for the wanted power, or the power of a given number of them."""
    if prompts is None:
        needed = sentences_needed(outcome.less, wanted, level)
        if needed is None:
            return StudyPlan(outcome, None, None, None, None)
        prompts = math.ceil(needed / outcome.asked)
    reached = power(np.array([int(prompts * outcome.asked)]), outcome.less, level)
    return StudyPlan(
        outcome, prompts, float(reached[0]), prompts * votes, math.ceil(prompts * votes / votes_per_person)
    )
