"""The best span of a text: where an answer begins and ends."""

from typing import NamedTuple

import torch
from torch import Tensor


class Spans(NamedTuple):
    """The tokens start .. end, both included, and log p(start) + log p(end | start); -inf where no span is allowed."""

    starts: Tensor  # (B,)
    ends: Tensor  # (B,)
    log_prob: Tensor  # (B,)


def best_spans(
    start_log_prob: Tensor,  # (B, k), of each candidate
    starts: Tensor,  # (B, k), where the candidates begin
    end_log_prob: Tensor,  # (B, k, L), given each start
    allowed: Tensor,  # (B, L) bool, tokens that an answer may hold
    max_tokens: int,
) -> Spans:
    """argmax over start <= end < start + max_tokens of log p(start) + log p(end | start), within `allowed`."""
    ends = torch.arange(allowed.shape[1], device=allowed.device)  # (L,)
    first = starts.unsqueeze(-1)  # (B, k, 1)
    valid = (ends >= first) & (ends < first + max_tokens) & allowed.unsqueeze(1)
    valid &= allowed.gather(1, starts).unsqueeze(-1)
    scores = (start_log_prob.unsqueeze(-1) + end_log_prob).masked_fill(~valid, -torch.inf)  # (B, k, L)
    log_prob, place = scores.flatten(1).max(dim=1)
    candidate, end = place // allowed.shape[1], place % allowed.shape[1]
    return Spans(starts.gather(1, candidate.unsqueeze(1)).squeeze(1), end, log_prob)
