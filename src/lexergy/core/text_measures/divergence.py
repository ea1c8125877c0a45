"""How far a writer's texts are from people's, by the regions that their embeddings fall into: MAUVE.

Pillutla et al. 2021: the embeddings of both sets together are cut into bins by k-means, and the two histograms p and q
are compared by the area under their divergence frontier. Few texts make the histograms of any two sets differ, so
that MAUVE is below 1 for two halves of the same texts: read it beside that number, at as many texts and bins.
"""

from collections.abc import Hashable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from lexergy.core.estimation.bootstrap import group_numbers
from lexergy.errors import LexergyError

SCALING = 5.0  # c, the paper's
NUM_MIXTURES = 25
TEXTS_PER_BIN = 10
SMOOTHING = 0.5  # of a text in each bin (Krichevsky and Trofimov 1981), which Pillutla et al. 2023 find least biased
EXPLAINED_VARIANCE = 0.9
RESTARTS = 5
NUM_SPLITS = 4
_EDGE = 1e-6  # of the mixtures, at which the frontier has all but reached its ends


def mauve(first: Tensor, second: Tensor, *, num_mixtures: int = NUM_MIXTURES) -> Tensor:  # (..., V), (..., V) -> (...)
    """Area under {(exp(-c KL(q || r)), exp(-c KL(p || r)))} for r = w p + (1 - w) q, 0 < w < 1 (Eq. 1, 2).

    1 where both histograms are the same, near 0 where they share no bin. The frontier runs from (1, 0) to (0, 1); its
    area is the same from either axis.
    """
    mixtures = torch.linspace(_EDGE, 1 - _EDGE, num_mixtures, dtype=torch.double)[:, None]  # (M, 1)
    first, second = first.double().unsqueeze(-2), second.double().unsqueeze(-2)  # (..., 1, V)
    mixed = mixtures * first + (1 - mixtures) * second  # (..., M, V)
    x, y = (torch.exp(-SCALING * _kl(own, mixed)) for own in (second, first))  # (..., M), falling and rising
    nothing, whole = torch.zeros_like(x[..., :1]), torch.ones_like(x[..., :1])
    x, y = torch.cat((whole, x, nothing), -1), torch.cat((nothing, y, whole), -1)
    return -torch.trapezoid(y, x, dim=-1)


def _kl(own: Tensor, mixed: Tensor) -> Tensor:  # (..., V), (..., V) -> (...)
    """KL(own || mixed); a bin without any of its own adds nothing."""
    return (torch.xlogy(own, own) - torch.xlogy(own, mixed)).sum(-1)


def histogram(
    bins: Tensor,  # (N,)
    num_bins: int,
    weights: Tensor | None = None,  # (..., N)
    *,
    smoothing: float = SMOOTHING,
) -> Tensor:  # (..., V)
    """The share of texts in each bin, each counted as often as its weight says, `smoothing` added to each count."""
    members = torch.nn.functional.one_hot(bins, num_bins).double()  # (N, V)
    weights = torch.ones(len(bins), dtype=torch.double) if weights is None else weights.double()
    counts = weights @ members + smoothing
    return counts / counts.sum(-1, keepdim=True)


def num_bins_for(num_texts: int) -> int:
    """A tenth of the number of texts of a set, at least two."""
    return max(2, round(num_texts / TEXTS_PER_BIN))


def quantise(features: Tensor, num_bins: int, seed: int) -> Tensor:  # (N, D) -> (N,)
    """The bin of each embedding, by k-means on the directions that hold 90 % of their variance, at length 1."""
    if not 1 <= num_bins <= len(features):
        raise LexergyError(
            f"{num_bins} bins for {len(features)} texts; expected 1 to {len(features)}; a tenth of them is usual."
        )
    from sklearn.cluster import KMeans

    reduced = _principal(torch.nn.functional.normalize(features.double(), dim=-1))
    num_bins = min(num_bins, len(reduced.unique(dim=0)))  # of texts that are the same some bins stay empty
    model = KMeans(num_bins, n_init=RESTARTS, random_state=seed % 2**32)
    return torch.tensor(model.fit_predict(reduced.numpy()), dtype=torch.long)


class Binned(NamedTuple):
    """Two sets of texts in bins that were found from both together."""

    first: Tensor  # (N,)
    second: Tensor  # (M,)
    num_bins: int

    def mauve(self, first_weights: Tensor | None = None, second_weights: Tensor | None = None) -> Tensor:
        """Of texts that count as often as their weights (..., N), (..., M) say, in the same bins: (...)."""
        return mauve(
            histogram(self.first, self.num_bins, first_weights), histogram(self.second, self.num_bins, second_weights)
        )


def binned(first: Tensor, second: Tensor, seed: int) -> Binned:  # (N, D), (M, D)
    """The bins of two sets of embeddings, a tenth as many as the smaller set has texts."""
    num_bins = num_bins_for(min(len(first), len(second)))
    bins = quantise(torch.cat((first, second)), num_bins, seed)
    return Binned(bins[: len(first)], bins[len(first) :], num_bins)


def mauve_across_halves(
    first: Tensor,  # (N, D)
    second: Tensor,  # (N, D)
    groups: Sequence[Hashable],  # N
    seed: int,
) -> float:
    """MAUVE between the first's texts of half of the groups and the second's of the others, over random halves.

    With the second as the first this is how near a set is to itself by this measure: its reference. NaN for one group.
    """
    numbers, generator = group_numbers(groups), torch.Generator().manual_seed(seed)
    num_groups, values = int(numbers.max()) + 1, []
    for _ in range(NUM_SPLITS if num_groups > 1 else 0):
        half = torch.isin(numbers, torch.randperm(num_groups, generator=generator)[: num_groups // 2])  # (N,)
        values += [binned(first[own], second[~own], seed).mauve() for own in (half, ~half)]
    return float(torch.stack(values).mean()) if values else float("nan")


def _principal(rows: Tensor) -> Tensor:  # (N, D) -> (N, d)
    centred = rows - rows.mean(0)
    left, scales, _ = torch.linalg.svd(centred, full_matrices=False)
    explained = (scales**2).cumsum(0)
    wanted = int((explained < EXPLAINED_VARIANCE * explained[-1]).sum()) + 1
    principal: Tensor = left[:, :wanted] * scales[:wanted]
    return principal
