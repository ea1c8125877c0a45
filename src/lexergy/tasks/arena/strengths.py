"""Strengths of more than two systems by the Bradley-Terry model, fitted by `choix`."""

import math
from collections.abc import Sequence

import numpy as np
from scipy.stats import t as student

from lexergy.core.estimation.bootstrap import group_counts
from lexergy.core.estimation.findings import CONFIDENCE, Estimate
from lexergy.core.text_measures.preferences import two_way_variance
from lexergy.errors import LexergyError
from lexergy.tasks.arena.votes import JudgedVote

NUM_RESAMPLES = 200
REGULARISATION = 0.01  # of the rates: a system that never lost has a finite strength


def strengths(systems: Sequence[str], votes: Sequence[JudgedVote], seed: int = 0) -> dict[str, Estimate]:
    """Log-strengths s with P(i preferred to j) = 1 / (1 + exp(s_j - s_i)), their mean being 0 (Bradley and Terry 1952).

    A tie is half a win for either. Intervals are of other prompts and other annotators, as in `two_way_share`.
    """
    wins = np.stack([_wins(vote, systems) for vote in votes])  # (N, S, S)
    value = _fit(wins.sum(0))
    clusters = ([vote.group for vote in votes], [vote.annotator for vote in votes], range(len(votes)))
    variances = [_variances(wins, names, seed) for names in clusters]  # 3 x (S,)
    fewest = min((len(set(names)) for names in clusters[:2] if len(set(names)) > 1), default=1)
    reach = student.ppf((1 + CONFIDENCE) / 2, fewest - 1) if fewest > 1 else math.nan
    errors = [math.sqrt(two_way_variance(*parts)) for parts in zip(*variances, strict=True)]
    return {
        system: Estimate(float(mean), float(mean - reach * error), float(mean + reach * error))
        for system, mean, error in zip(systems, value, errors, strict=True)
    }


def _wins(vote: JudgedVote, systems: Sequence[str]) -> np.ndarray:  # (S, S), wins[i, j]: of i against j
    first, second = (systems.index(name) for name in (vote.first, vote.second))
    wins = np.zeros((len(systems), len(systems)))
    credit = {vote.first: 1.0, vote.second: 0.0, None: 0.5}[vote.winner]
    wins[first, second], wins[second, first] = credit, 1 - credit
    return wins


def _variances(wins: np.ndarray, groups: Sequence[object], seed: int) -> np.ndarray:  # (N, S, S) -> (S,)
    counts, membership = group_counts(list(map(str, groups)), seed, NUM_RESAMPLES)  # (R, G), (N,)
    weights = counts.numpy()[:, membership.numpy()]  # (R, N)
    resampled = np.tensordot(weights, wins, 1)  # (R, S, S)
    return np.asarray(np.stack([_fit(matrix) for matrix in resampled]).var(0, ddof=1))


def _fit(wins: np.ndarray) -> np.ndarray:  # (S, S) -> (S,)
    try:
        import choix
    except ImportError:
        raise LexergyError(
            "strengths of more than two systems need `choix`; install it with `pip install 'lexergy[serve]'`."
        ) from None
    fitted = choix.ilsr_pairwise_dense(wins, alpha=REGULARISATION)
    return np.asarray(fitted - fitted.mean())
