"""An n-gram model of some text whose floor is another LM: what each context has seen, and what it leaves to the LM.

Interpolated modified Kneser-Ney (Chen and Goodman 1998), from contexts of n - 1 tokens down to those of one:

    p(w | c) = (N(c w) - D) / N(c) + gamma(c) p(w | c'),      c' = c without its first token

N counts occurrences for the longest contexts, and how many tokens were seen to the left for all others; D is one of
three discounts by N = 1, 2, 3 or more. Where the usual estimate ends with unigrams, the LM's own prediction stands
here, so that a step touches only the tokens that were seen after a context, and all others keep the LM's proportions.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from lexergy.core.vocabulary import log_totals
from lexergy.errors import LexergyError


class NgramLevel(NamedTuple):
    """All contexts of one length, sorted by `keys`, and what was seen after each: entries `starts[c] .. starts[c+1]`.

    A context's key is its number among the contexts without its first token, times `V + 2`, plus that token and one.
    """

    keys: Tensor  # (C,) int64
    starts: Tensor  # (C + 1,) int64
    tokens: Tensor  # (T,) int32
    probs: Tensor  # (T,) float32, (N(c w) - D) / N(c)
    backoff: Tensor  # (C,) float32, gamma(c)


class Entries(NamedTuple):
    """What one length of context adds to the rows that have such a context."""

    rows: Tensor  # (T,)
    tokens: Tensor  # (T,)
    probs: Tensor  # (T,)


class Matches(NamedTuple):
    """What is known after N contexts: p(w) = sum of the entries' probabilities + `left` p_LM(w)."""

    length: Tensor  # (N,) of the longest context found
    left: Tensor  # (N,) what is left to the LM
    entries: list[Entries]

    def prob_of(self, tokens: Tensor) -> Tensor:  # (N,) -> (N,)
        """What the entries give to one token of each row."""
        total = torch.zeros_like(self.left)
        for rows, seen, probs in self.entries:
            own = seen == tokens[rows]
            total.index_add_(0, rows[own], probs[own])
        return total


def kneser_ney(documents: Sequence[np.ndarray], order: int, vocab_size: int) -> list[NgramLevel]:
    """The levels for contexts of 1 .. `order` - 1 tokens of these documents; n-grams cross from none into the next."""
    if order < 2:
        raise LexergyError(f"`order` is {order}; expected at least 2: one token, and one before it.")
    tokens, lefts = _predicted(documents, order, vocab_size)  # (M,), (order - 1, M)
    if not len(tokens):
        raise LexergyError("the documents have no tokens; expected text to count n-grams in.")
    radix, ids, present = vocab_size + 2, np.zeros(len(tokens), np.int64), np.ones(len(tokens), bool)
    keys, seen = [], []  # of each length: contexts, and (context, token) of each position
    for left in lefts:
        present &= left >= 0
        if not present.any():
            break
        found, inverse = np.unique(ids[present] * radix + left[present] + 1, return_inverse=True)
        ids[present] = inverse
        keys.append(found)
        seen.append(ids[present] * vocab_size + tokens[present])
    levels = []
    for length, own in enumerate(keys):
        if length == len(keys) - 1:
            pairs, counts = np.unique(seen[length], return_counts=True)
        else:
            longer, token = np.divmod(np.unique(seen[length + 1]), vocab_size)
            pairs, counts = np.unique(keys[length + 1][longer] // radix * vocab_size + token, return_counts=True)
        levels.append(_level(own, pairs, counts, vocab_size))
    return levels


def _predicted(documents: Sequence[np.ndarray], order: int, vocab_size: int) -> tuple[np.ndarray, np.ndarray]:
    """Every token, and those 1 .. order - 1 places to its left; `vocab_size` is a document's start, -1 before it."""
    padding = np.full(order - 1, -1, np.int64)
    padding[-1:] = vocab_size
    stream = np.concatenate([part for document in documents for part in (padding, document)]).astype(np.int64)
    places = np.flatnonzero((stream >= 0) & (stream < vocab_size))
    return stream[places], np.stack([stream[places - distance] for distance in range(1, order)])


def _level(keys: np.ndarray, pairs: np.ndarray, counts: np.ndarray, vocab_size: int) -> NgramLevel:
    contexts, tokens = np.divmod(pairs, vocab_size)
    discount = _discounts(counts)[np.minimum(counts, 3)]  # (T,)
    totals = np.bincount(contexts, counts, minlength=len(keys))
    # A document's start is a context of longer ones only: nothing is counted after it, and all is left to the LM.
    taken = np.bincount(contexts, discount, minlength=len(keys))
    backoff = np.divide(taken, totals, out=np.ones(len(keys)), where=totals > 0)
    starts = np.searchsorted(contexts, np.arange(len(keys) + 1))
    return NgramLevel(
        torch.from_numpy(keys),
        torch.from_numpy(starts),
        torch.from_numpy(tokens.astype(np.int32)),
        torch.from_numpy(((counts - discount) / totals[contexts]).astype(np.float32)),
        torch.from_numpy(backoff.astype(np.float32)),
    )


def _discounts(counts: np.ndarray) -> np.ndarray:  # -> (4,), by count: 0, 1, 2, 3 or more
    """D_i = i - (i + 1) Y n_(i+1) / n_i, Y = n_1 / (n_1 + 2 n_2); n_i n-grams were counted i times (Eq. 17, 1998).

    Where too little was counted to tell them apart, one discount Y for all (Ney et al. 1994), or a half.
    """
    of = np.bincount(np.minimum(counts, 5), minlength=6).astype(float)
    single = of[1] / (of[1] + 2 * of[2]) if of[1] and of[2] else 0.5
    if not of[1:5].all():
        return np.array([0, single, single, single])
    own = [i - (i + 1) * single * of[i + 1] / of[i] for i in (1, 2, 3)]
    return np.array([0, *(value if 0 < value < i else single for i, value in enumerate(own, 1))])


def find(levels: Sequence[NgramLevel], before: Tensor, vocab_size: int) -> Matches:
    """What the levels know after the tokens `before` (N, n), the last of them nearest; -1 where there is none."""
    ids = torch.zeros(len(before), dtype=torch.long, device=before.device)
    found = torch.ones_like(ids, dtype=torch.bool)
    length = torch.zeros_like(ids)
    contexts: list[tuple[Tensor, Tensor]] = []  # rows that have one of this length, and which
    for distance, level in enumerate(levels[: before.shape[1]], 1):
        key = ids * (vocab_size + 2) + before[:, -distance] + 1
        ids = torch.searchsorted(level.keys, key).clamp_max(len(level.keys) - 1)
        found = found & (level.keys[ids] == key)
        rows = found.nonzero().squeeze(1)
        length[rows] = distance
        contexts.append((rows, ids[rows]))
    left = torch.ones(len(before), device=before.device)
    entries = []
    for level, (rows, own) in reversed(list(zip(levels, contexts, strict=False))):
        first, count = level.starts[own], level.starts[own + 1] - level.starts[own]
        of = torch.repeat_interleave(rows, count)  # (T,)
        before_own = torch.repeat_interleave(count.cumsum(0) - count - first, count)
        places = torch.arange(len(of), device=of.device) - before_own
        entries.append(Entries(of, level.tokens[places].long(), level.probs[places] * left[of]))
        left[rows] *= level.backoff[own]
    return Matches(length, left, entries)


def mix_(logits: Tensor, matches: Matches, weights: Tensor) -> Tensor:  # (N, V), (n,)
    """Change logits to those of (1 - lambda) p_LM + lambda p_ngram, lambda by the length of the context found.

    With s the sum of entries and G what they leave, that is (1 - lambda + lambda G) p_LM + lambda s. Logits may be
    shifted, so that only those of entries change: l(w) -> log(exp l(w) + Z s(w) lambda / (1 - lambda + lambda G)).
    """
    weight = weights.to(logits)[matches.length]  # (N,)
    log_scale = log_totals(logits).to(logits) + (weight / (1 - weight + weight * matches.left)).log()
    for rows, tokens, probs in matches.entries:
        logits[rows, tokens] = torch.logaddexp(logits[rows, tokens], log_scale[rows] + probs.log().to(logits))
    return logits


def fit_weights(lm_prob: Tensor, ngram_prob: Tensor, matches: Matches, num_lengths: int) -> Tensor:
    """The lambda of each length of context under which given tokens are likeliest: (N,), (N,) -> (n,), 0 for none.

    sum log(p + lambda d), d = s - (1 - Gamma) p, is concave in lambda: its slope is halved down to a zero.
    """
    lm_prob, ngram_prob, left = lm_prob.double(), ngram_prob.double(), matches.left.double()
    gap = ngram_prob - (1 - left) * lm_prob  # (N,)
    low, high = torch.zeros(num_lengths, dtype=torch.double), torch.full((num_lengths,), 0.99, dtype=torch.double)
    for _ in range(40):
        middle = (low + high) / 2
        slopes = gap / (lm_prob + middle[matches.length] * gap)
        rising = torch.zeros(num_lengths, dtype=torch.double).index_add_(0, matches.length, slopes) > 0
        low, high = torch.where(rising, middle, low), torch.where(rising, high, middle)
    return ((low + high) / 2).round(decimals=6)
