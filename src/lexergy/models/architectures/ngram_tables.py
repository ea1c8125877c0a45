"""Hashed n-gram embeddings: what lets a small energy trained from scratch leave chance level."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from lexergy.errors import LexergyError

# Odd 64-bit constants of well-known hashes, as signed integers: one per distance from the position.
_MULTIPLIERS = (
    -7046029254386353131,
    -49064778989728563,
    -4265267296055464877,
    -4658895280553007687,
    -7723592293110705685,
    -4417276706812531889,
    1609587929392839161,
    2870177450012600261,
)

# Small, so that what is learned soon outweighs it: with torch's 1.0 training takes several times as long.
_INITIAL_STD = 0.02


@dataclass(frozen=True)
class NgramTables:
    """Orders of the n-grams, and per order a table of `buckets` vectors of `width`."""

    orders: tuple[int, ...] = (2, 3, 4)
    buckets: int = 65536
    width: int = 16

    def __post_init__(self) -> None:
        object.__setattr__(self, "orders", tuple(self.orders))
        if not self.orders or not all(1 <= order <= len(_MULTIPLIERS) for order in self.orders):
            raise LexergyError(
                f"n-gram `orders` is {list(self.orders)}; expected one or more numbers from 1 to {len(_MULTIPLIERS)}."
            )
        if self.buckets < 1 or self.width < 1:
            raise LexergyError(
                f"n-gram tables have {self.buckets} buckets of width {self.width}; expected at least 1 and 1."
            )

    @property
    def size(self) -> int:
        """Width of a position's vector, all orders together."""
        return len(self.orders) * self.width

    @property
    def context(self) -> int:
        """How many earlier tokens a position's vector depends on."""
        return max(self.orders) - 1


class NgramEmbedding(nn.Module):
    """Vectors of the n-grams that end at each position, from tables addressed by a hash of the tokens.

    bucket_n(t) = high_bits(sum_j a_j (x_{t-j} + 1)) mod buckets, j = 0 .. n-1, with x = -1 before the start.
    """

    def __init__(self, settings: NgramTables) -> None:
        super().__init__()
        self.settings = settings
        self.tables = nn.ModuleList(nn.Embedding(settings.buckets, settings.width) for _ in settings.orders)
        for weight in self.tables.parameters():
            nn.init.normal_(weight, std=_INITIAL_STD)

    def forward(self, tokens: Tensor) -> Tensor:  # (N, L) -> (N, L, orders * width)
        return torch.cat([table(bucket) for table, bucket in zip(self.tables, self.buckets(tokens), strict=True)], -1)

    def buckets(self, tokens: Tensor) -> list[Tensor]:
        """The bucket of each position's n-gram, a tensor (N, L) per order."""
        length, context = tokens.shape[1], self.settings.context
        padded = nn.functional.pad(tokens.long() + 1, (context, 0))  # (N, context + L)
        sums, total = {}, torch.zeros_like(tokens, dtype=torch.int64)
        for distance in range(context + 1):
            start = context - distance
            total = total + padded[:, start : start + length] * _MULTIPLIERS[distance]
            sums[distance + 1] = total
        # The low bits of a product depend on the low bits of the token only, the high ones on all of them.
        return [(sums[order] >> 32).remainder(self.settings.buckets) for order in self.settings.orders]
