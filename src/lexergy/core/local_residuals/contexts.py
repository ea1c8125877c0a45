"""The tokens that stand before each place of a text."""

from torch import Tensor, nn

NOTHING = -1  # in the place of a token, before a text begins


def contexts(rows: Tensor, width: int) -> Tensor:  # (B, L) -> (B, L + 1, width)
    """The last `width` tokens before each place of rows, and before the place after their end."""
    return nn.functional.pad(rows, (width, 0), value=NOTHING).unfold(1, width, 1)
