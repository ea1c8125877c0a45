"""Sentences that are read and the symbols that are to be written, as tensors."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from lexergy.core.search_aware.step_decoder import PADDING
from lexergy.models.seq2seq.encoder import Sources


@dataclass(frozen=True)
class SequencePairs:
    """N sentences and their gold symbols; a translation's last is the end symbol.

    PADDING stands after the last symbol, and in the place of one that the vocabulary does not have: it counts for no
    loss.
    """

    sources: Sources
    gold: Tensor  # (N, T)
    lengths: Tensor  # (N,)

    def __len__(self) -> int:
        return len(self.gold)

    def select(self, rows: Tensor) -> "SequencePairs":
        """These pairs, without the columns in which all of them have ended."""
        lengths = self.lengths[rows]
        return SequencePairs(self.sources.select(rows), self.gold[rows, : int(lengths.max())], lengths)

    def first(self, count: int) -> "SequencePairs":
        return self.select(torch.arange(min(count, len(self))))

    def to(self, device: torch.device) -> "SequencePairs":
        return SequencePairs(self.sources.to(device), self.gold.to(device), self.lengths.to(device))


def padded(rows: Sequence[Sequence[int]], value: int = PADDING) -> Tensor:  # -> (N, L)
    """Rows of numbers as a tensor."""
    return pad_sequence([torch.tensor(row, dtype=torch.long) for row in rows], batch_first=True, padding_value=value)
