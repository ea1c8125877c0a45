"""What people's votes say: preferences as in Table 2, with intervals, agreement, position bias, strengths."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import median

import numpy as np

from lexergy.core.estimation.findings import Estimate
from lexergy.core.text_measures.preferences import SentenceRates, agreement, sentence_rates, two_way_share
from lexergy.tasks.arena.strengths import strengths
from lexergy.tasks.arena.study import Study
from lexergy.tasks.arena.votes import KEPT, TIE, JudgedVote, JudgedVotes


@dataclass(frozen=True)
class PairResult:
    """Two systems: how often fewer people preferred the baseline (Table 2), and how votes went."""

    baseline: str  # Model1
    compared: str  # Model2
    rates: SentenceRates
    preference: Estimate  # share of votes for the compared system, a tie being half a vote
    ties: float  # share of votes
    num_votes: int
    alpha: Estimate  # agreement, Krippendorff's alpha


@dataclass(frozen=True)
class AnnotatorResult:
    """One person's work."""

    annotator: str
    qualifying: float | None  # accuracy
    went_on: bool
    votes: int  # on pairs, repetitions aside
    kept: int
    checks: int
    checks_passed: int
    first: float  # share of decided votes for the text shown first
    consistent: float  # share of repeated pairs on which they chose the same text again
    median_seconds: float | None


@dataclass(frozen=True)
class ArenaResult:
    """All that a report shows."""

    pairs: tuple[PairResult, ...]
    strengths: dict[str, Estimate]  # Bradley-Terry, log-odds against the average system; for more than two systems
    annotators: tuple[AnnotatorResult, ...]
    bar: float | None  # of the qualifying round
    first: Estimate  # share of decided votes for the text shown first: .5 without position bias
    consistent: Estimate  # share of repeated pairs judged the same way with sides swapped
    statuses: dict[str, int]  # how many votes on pairs were kept, and why not


def analyse(study: Study, judged: JudgedVotes, seed: int = 0) -> ArenaResult:
    """The study's result from its votes; intervals are of 95 %, over prompts (by document) and annotators."""
    kept = judged.kept()
    pairs = tuple(_pair(kept, baseline, compared, seed) for baseline, compared in combinations(study.systems, 2))
    return ArenaResult(
        pairs=pairs,
        strengths=strengths(study.systems, kept, seed) if len(study.systems) > 2 and kept else {},
        annotators=_annotators(judged),
        bar=None if judged.qualified is None else judged.qualified.bar,
        first=_share([vote for vote in kept if vote.winner is not None], seed, lambda vote: vote.choice == "first"),
        consistent=_consistency(judged, seed),
        statuses=dict(Counter(vote.status for vote in judged.of_kind("pair"))),
    )


def tallies(votes: Sequence[JudgedVote]) -> dict[str, Counter[str]]:
    """How many votes each system, or no difference, has on each comparison."""
    counts: dict[str, Counter[str]] = {}
    for vote in votes:
        counts.setdefault(vote.comparison, Counter())[vote.winner or TIE] += 1
    return counts


def _pair(kept: Sequence[JudgedVote], baseline: str, compared: str, seed: int) -> PairResult:
    votes = [vote for vote in kept if vote.systems == (baseline, compared)]
    counts = tallies(votes)
    table = np.array([[tally[baseline], tally[compared], tally[TIE]] for tally in counts.values()]).reshape(-1, 3)
    groups = {vote.comparison: vote.group for vote in votes}
    credit = np.array([0.5 if vote.winner is None else float(vote.winner == compared) for vote in votes])
    return PairResult(
        baseline=baseline,
        compared=compared,
        rates=sentence_rates(table[:, 0], table[:, 1], table.sum(1) > 0),
        preference=two_way_share(credit, [vote.group for vote in votes], [vote.annotator for vote in votes], seed),
        ties=float(np.mean(credit == 0.5)) if votes else float("nan"),
        num_votes=len(votes),
        alpha=agreement(table, [groups[comparison] for comparison in counts], seed),
    )


def _share(votes: Sequence[JudgedVote], seed: int, is_hit: Callable[[JudgedVote], bool]) -> Estimate:
    hits = np.array([float(is_hit(vote)) for vote in votes])
    return two_way_share(hits, [vote.group for vote in votes], [vote.annotator for vote in votes], seed)


def _repeated(judged: JudgedVotes) -> dict[tuple[str, str], tuple[JudgedVote, JudgedVote]]:
    """The two votes of a person on a pair that came up again."""
    before = {(vote.annotator, vote.comparison): vote for vote in judged.of_kind("pair")}
    again = {(vote.annotator, vote.comparison): vote for vote in judged.of_kind("repetition")}
    return {key: (before[key], vote) for key, vote in again.items() if key in before}


def _consistency(judged: JudgedVotes, seed: int) -> Estimate:
    same = {
        (old.annotator, old.comparison): old.winner == new.winner
        for old, new in _repeated(judged).values()
        if old.status == KEPT and new.status == "repetition"
    }
    votes = [old for old, _ in _repeated(judged).values() if (old.annotator, old.comparison) in same]
    return _share(votes, seed, lambda vote: same[vote.annotator, vote.comparison])


def _annotators(judged: JudgedVotes) -> tuple[AnnotatorResult, ...]:
    names = dict.fromkeys(vote.annotator for vote in judged.votes)
    return tuple(_annotator(name, judged) for name in names)


def _annotator(name: str, judged: JudgedVotes) -> AnnotatorResult:
    own = [vote for vote in judged.votes if vote.annotator == name]
    pairs = [vote for vote in own if vote.kind == "pair"]
    checks = [vote for vote in own if vote.kind == "check"]
    decided = [vote.choice == "first" for vote in pairs if vote.winner is not None]
    again = [old.winner == new.winner for (who, _), (old, new) in _repeated(judged).items() if who == name]
    seconds = [vote.seconds for vote in own if vote.seconds is not None]
    accuracies = {} if judged.qualified is None else judged.qualified.accuracies
    return AnnotatorResult(
        annotator=name,
        qualifying=accuracies.get(name),
        went_on=judged.qualified is None or judged.qualified.passed(name),
        votes=len(pairs),
        kept=sum(vote.status == KEPT for vote in pairs),
        checks=len(checks),
        checks_passed=sum(bool(vote.is_right) for vote in checks),
        first=float(np.mean(decided)) if decided else float("nan"),
        consistent=float(np.mean(again)) if again else float("nan"),
        median_seconds=median(seconds) if seconds else None,
    )
