"""Energies of texts that end: each is scored at its own length, so that no energy ever sees padding."""

from torch import Tensor

from lexergy.models.energies.adapters import Energy


def score_unpadded(
    energy: Energy,
    prefix: Tensor,  # (B, P)
    continuations: Tensor,  # (B, K, C)
    features: Tensor | None = None,  # (B, K, F)
    lengths: Tensor | None = None,  # (B, K)
) -> Tensor:  # (B, K)
    """E(prefix, continuation) of the first `lengths` tokens of each continuation (unless given, all C).

    Continuations of one length are scored together. Where prefixes have different numbers of them, the rows are filled
    up with others, whose scores are let go, so that an energy may still run each prefix once.
    """
    if lengths is None or bool((lengths == continuations.shape[-1]).all()):
        return energy.score(prefix, continuations, features)
    scores = None
    for length in lengths.unique().tolist():
        chosen = lengths == length  # (B, K)
        rows = chosen.any(1).nonzero().squeeze(1)  # (b,)
        count = int(chosen.sum(1).max())
        places = chosen[rows].byte().argsort(dim=1, descending=True, stable=True)[:, :count]  # (b, k)
        picked = continuations[rows[:, None], places, :length]  # (b, k, length)
        picked_features = None if features is None else features[rows[:, None], places]
        part = energy.score(prefix[rows], picked, picked_features)  # (b, k)
        own = chosen[rows[:, None], places].to(part.device)  # (b, k)
        scores = part.new_zeros(lengths.shape) if scores is None else scores
        # Row by row and place by place: `chosen` lists its own in the order in which they were put first.
        scores = scores.masked_scatter(chosen.to(part.device), part[own])
    assert scores is not None
    return scores
