"""Who says things twice: different n-grams of texts over all of them (Figure 2, right, Deng et al. 2020)."""

from collections.abc import Hashable, Iterable, Sequence

import numpy as np


def unique_share(texts: Iterable[Sequence[Hashable]], order: int) -> np.ndarray:  # N texts -> (N,)
    """Different n-grams of each text over all its C - n + 1 n-grams: 1 where nothing is said twice."""
    return np.array([_share(_ngrams(text, order)) for text in texts])


def unique_share_of_all(texts: Iterable[Sequence[Hashable]], order: int) -> float:
    """Different n-grams of all the texts together over all their n-grams."""
    return _share([gram for text in texts for gram in _ngrams(text, order)])


def _ngrams(text: Sequence[Hashable], order: int) -> list[tuple[Hashable, ...]]:
    items = np.asarray(text).tolist()
    return list(zip(*(items[start:] for start in range(order)), strict=False))


def _share(grams: Sequence[tuple[Hashable, ...]]) -> float:
    """A text without n-grams has said none of them twice."""
    return len(set(grams)) / len(grams) if grams else 1.0
