"""What a language model draws."""

from typing import NamedTuple

from torch import Tensor


class Samples(NamedTuple):
    """Continuations, on the CPU."""

    tokens: Tensor  # (B, K, C); padded after an end, with the LM's end token where it has one
    log_prob: Tensor  # (B, K) float64, by the LM as it was truncated; NaN where not told
    lengths: Tensor  # (B, K), with the end token, or the one that completed a stop string
    features: Tensor | None  # (B, K, F), when asked for
    log_ratio: Tensor | None = None  # (B, K) float64, log P_LM - log q, where they were drawn from another q
