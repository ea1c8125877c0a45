"""How much more often a domain has each token than an LM expects: log-ratio of unigrams."""

import torch
from torch import Tensor


def log_ratio(counts: Tensor, expected: Tensor, smoothing: float) -> Tensor:  # (V,), (V,) -> (V,)
    """log((m c(w) / N + a) / (e(w) + a)): the domain's share of each token over the LM's own.

    c counts the domain's N tokens; e(w) = sum_t p_LM(w | x_<t) over m positions is how many the LM expects there. Both
    are as of m tokens, so that `smoothing` a quiets what m positions cannot tell.
    """
    counts, expected = counts.double(), expected.double()
    share = counts * (expected.sum() / counts.sum())
    return ((share + smoothing).log() - (expected + smoothing).log()).to(torch.float32)
