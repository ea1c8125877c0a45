"""Where texts end that are kept in rows of one length."""

import torch
from torch import Tensor


def lengths_until(tokens: Tensor, end_token: int | None) -> Tensor:  # (..., C) -> (...)
    """How many tokens of each row are text: up to the first end token, that included; all C where there is none."""
    length = tokens.shape[-1]
    if end_token is None:
        return torch.full(tokens.shape[:-1], length, device=tokens.device)
    places = torch.arange(1, length + 1, device=tokens.device)  # (C,)
    return torch.where(tokens == end_token, places, length).amin(-1)


def inside(lengths: Tensor, size: int) -> Tensor:  # (...) -> (..., size) bool
    """Which places of rows of one size are text, the padding after their ends apart."""
    return torch.arange(size, device=lengths.device) < lengths.unsqueeze(-1)
