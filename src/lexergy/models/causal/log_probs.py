"""log p(x_t | x_<t) of given tokens, from a causal model's logits: one softmax for all who ask."""

from collections.abc import Callable

import torch
from torch import Tensor

LOGITS_BYTES = 2**28  # held at once while scoring


def rows_at_once(length: int, vocab_size: int, dtype: torch.dtype = torch.float64) -> int:
    """How many rows of `length` predicted tokens are scored at a time, so that their logits fit into memory."""
    return max(1, LOGITS_BYTES // (dtype.itemsize * length * vocab_size))


def token_log_prob(
    logits_of: Callable[[Tensor], Tensor],  # rows (b, L) -> (b, n, V)
    rows: Tensor,  # (B, L)
    targets: Tensor,  # (B, n)
    vocab_size: int,
    dtype: torch.dtype = torch.float64,
) -> Tensor:  # (B, n), on the CPU
    """Log-probabilities of the targets, a few rows at a time."""
    few = rows_at_once(rows.shape[1], vocab_size, dtype)
    chunks = zip(rows.split(few), targets.split(few), strict=True)
    return torch.cat([pick_log_prob(logits_of(chunk), picked, dtype).cpu() for chunk, picked in chunks])


def pick_log_prob(logits: Tensor, tokens: Tensor, dtype: torch.dtype = torch.float64) -> Tensor:
    """log softmax(logits)_x: (b, n, V), (b, n) -> (b, n).

    In float64 where it goes into estimates; in float32, which is faster, where texts are scored and ranked.
    """
    index = tokens.unsqueeze(-1)
    if dtype == torch.float64:
        return logits.double().log_softmax(-1).gather(-1, index).squeeze(-1)
    logits = logits.to(dtype)
    # Row by row: the exponentials of a whole chunk would leave the caches of a CPU.
    log_z = torch.stack([row.logsumexp(-1) for row in logits])
    return logits.gather(-1, index).squeeze(-1) - log_z
