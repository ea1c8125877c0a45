"""Which of two systems people prefer: rates and tests of votes, intervals over prompts and annotators, agreement."""

from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from scipy.stats import binomtest
from scipy.stats import t as student

from lexergy.core.estimation.bootstrap import group_counts, resampled_means
from lexergy.core.estimation.findings import CONFIDENCE, NOTHING, Estimate, clopper_pearson

NUM_RESAMPLES = 1000
_UPPER_TAIL = (1 + CONFIDENCE) / 2


class SentenceRates(NamedTuple):
    """How often fewer people, or no more of them, preferred the first of two systems (Table 2, Deng et al. 2020)."""

    num_sentences: int  # with at least one vote
    less: int
    equal: int
    less_p_value: float
    less_or_equal_p_value: float

    @property
    def less_rate(self) -> float:
        return self.less / self.num_sentences if self.num_sentences else float("nan")

    @property
    def less_or_equal_rate(self) -> float:
        return (self.less + self.equal) / self.num_sentences if self.num_sentences else float("nan")


def sentence_rates(first: np.ndarray, second: np.ndarray, asked: np.ndarray) -> SentenceRates:  # (S,), (S,), (S,) bool
    """The rates "<" and "<=" over sentences, each with its one-sided binomial test against 1/2.

    `first` and `second` count the votes for either system. A sentence is `asked` where a vote on it is left, a tie
    included. Both rates are of all of these: in Table 2, base LM against BALM has "<" 46.77 % and "<=" 54.85 %, 145
    and 170 of 310 sentences. So the test of "<=" counts what is even in favour of the second system.
    """
    less = int((first < second)[asked].sum())
    equal = int((first == second)[asked].sum())
    total = int(asked.sum())
    return SentenceRates(total, less, equal, _p_value(less, total), _p_value(less + equal, total))


def _p_value(successes: int, trials: int) -> float:
    """P(Binomial(trials, 1/2) >= successes)."""
    return float(binomtest(successes, trials, 0.5, "greater").pvalue) if trials else float("nan")


def two_way_share(
    values: np.ndarray,  # (N,) in 0 .. 1
    prompts: Sequence[Hashable],  # N
    annotators: Sequence[Hashable],  # N
    seed: int = 0,
) -> Estimate:
    """The mean of votes with an interval for other prompts and other annotators.

    Its variance is that of `two_way_variance`, by the bootstrap that draws whole prompts, whole annotators or single
    votes again. The ends are those of as many independent trials as have this variance, with Student's t for so few
    prompts or annotators (Korn and Graubard 1998), so they stay within 0 .. 1. Votes by one annotator alone tell
    nothing of others: their interval is over prompts.
    """
    if len(values) == 0:
        return NOTHING
    tensor = torch.from_numpy(np.asarray(values, dtype=float))
    clusters = [names for names in (prompts, annotators) if len(set(names)) > 1]
    share, fewest = float(np.mean(values)), min((len(set(names)) for names in clusters), default=1)
    if fewest == 1:
        return Estimate(share, float("nan"), float("nan"))
    variance = two_way_variance(
        *(float(resampled_means(tensor, names, seed).var()) for names in (prompts, annotators, range(len(values))))
    )
    if variance == 0:  # all votes are the same: each prompt or annotator, whichever are fewer, is a trial
        return clopper_pearson(share, fewest)
    few = float(student.ppf(_UPPER_TAIL, len(values) - 1) / student.ppf(_UPPER_TAIL, fewest - 1)) ** 2
    return clopper_pearson(share, min(few * share * (1 - share) / variance, len(values)))


def two_way_variance(of_prompts: float, of_annotators: float, of_votes: float) -> float:
    """Of a statistic of votes that are alike on one prompt, and by one person: V_prompts + V_annotators - V_votes.

    Each is the variance under the bootstrap that draws whole prompts, whole annotators or single votes again (two-way
    clusters, Cameron, Gelbach and Miller 2011). Noise may take it below its parts: it is never less than either.
    """
    return max(of_prompts, of_annotators, of_prompts + of_annotators - of_votes)


def krippendorff_alpha(counts: np.ndarray) -> float:  # (U, C)
    """Agreement of votes for C answers on U units: 1 - D_o / D_e, nominal (Krippendorff 2011).

    1 where all votes on a unit are the same, 0 where they agree as often as votes drawn by lot would. Units may have
    any number of votes; those with fewer than two say nothing. NaN where nobody could have disagreed.
    """
    return float(_alphas(counts, np.ones((1, len(counts))))[0])


def agreement(counts: np.ndarray, groups: Sequence[Hashable], seed: int = 0) -> Estimate:  # (U, C), U
    """Krippendorff's alpha with the percentile interval of a bootstrap over groups of units."""
    if len(counts) == 0:
        return NOTHING
    drawn, membership = group_counts(groups, seed, NUM_RESAMPLES)  # (R, G), (U,)
    alphas = _alphas(counts, drawn.numpy()[:, membership.numpy()])
    alphas = alphas[np.isfinite(alphas)]
    ends = np.quantile(alphas, (1 - _UPPER_TAIL, _UPPER_TAIL)) if drawn.shape[1] > 1 and len(alphas) else [np.nan] * 2
    return Estimate(krippendorff_alpha(counts), float(ends[0]), float(ends[1]))


def _alphas(counts: np.ndarray, weights: np.ndarray) -> np.ndarray:  # (U, C), (R, U) -> (R,)
    """Alpha of each resample, in which unit u stands weights[r, u] times."""
    size = counts.sum(1)  # (U,)
    told = size > 1
    counts, size, weights = counts[told].astype(float), size[told], weights[:, told]
    disagreeing = (size**2 - (counts**2).sum(1)) / (size - 1)  # (U,), ordered pairs of unlike votes
    totals = weights @ counts  # (R, C)
    votes = totals.sum(1)  # (R,)
    with np.errstate(divide="ignore", invalid="ignore"):
        observed = weights @ disagreeing / votes
        expected = (votes**2 - (totals**2).sum(1)) / (votes * (votes - 1))
        return np.asarray(np.where(expected > 0, 1 - observed / expected, np.nan))


def better_half(accuracies: Sequence[float]) -> float:
    """The accuracy at and above which annotators go on: that of the last one of the better half (App. A.4)."""
    ranked = sorted(accuracies, reverse=True)
    return ranked[(len(ranked) - 1) // 2] if ranked else float("nan")
