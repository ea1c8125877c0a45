"""Texts, pairs of texts and questions with their contexts as rows of tokens that an encoder reads."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from transformers import PreTrainedTokenizerBase

from lexergy.models.loading.tokenizer import text_ends

Characters = tuple[int, int]


@dataclass(frozen=True)
class Row:
    """[CLS] a [SEP] or [CLS] a [SEP] b [SEP]; segments are 0 up to the first [SEP], then 1.

    Of a question's row `characters` says where in the context each token from `context_start` on stands.
    """

    tokens: list[int]
    segments: list[int]
    context_start: int = 0
    characters: list[Characters] = field(default_factory=list)

    def token_span(self, start: int, end: int) -> tuple[int, int] | None:
        """The row's first and last token of the context's characters start .. end - 1; None where not all are here."""
        held = [place for place, (first, last) in enumerate(self.characters) if first < end and last > start]
        if not held or self.characters[held[0]][0] > start or self.characters[held[-1]][1] < end:
            return None
        return self.context_start + held[0], self.context_start + held[-1]


class Batch(NamedTuple):
    tokens: Tensor  # (B, L)
    attended: Tensor  # (B, L) bool
    segments: Tensor  # (B, L)
    context: Tensor  # (B, L) bool, tokens of a question's context

    def to(self, device: torch.device) -> "Batch":
        return Batch(*(part.to(device) for part in self))


class RowWriter:
    """Writes rows of at most `max_length` tokens; [CLS] and [SEP] are end-of-text where a tokenizer has no such tokens.

    Of a pair that is too long the longer text loses its end. A long context is read in windows that begin `stride`
    tokens after one another.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, max_length: int, stride: int) -> None:
        self.tokenizer = tokenizer
        self.max_length = max_length
        self.stride = stride
        self._start, self._end = text_ends(tokenizer)
        self.pad = int(tokenizer.pad_token_id or 0)

    def row(self, text: str, pair: str | None = None) -> Row:
        """The row of a text, or of a pair of texts."""
        first = self._ids(text)
        if pair is None:
            return self._join(first[: self.max_length - 2])
        second = self._ids(pair)
        room = self.max_length - 3
        kept = max(room // 2, room - len(second))
        first = first[:kept]
        return self._join(first, second[: room - len(first)])

    def windows(self, question: str, context: str) -> Iterator[Row]:
        """The rows of a question, each beside a part of its context; together they hold all of it."""
        asked = self._ids(question)[: self.max_length // 2]
        encoded = self.tokenizer(context, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
        ids, characters = encoded["input_ids"], [tuple(place) for place in encoded["offset_mapping"]]
        room = self.max_length - 3 - len(asked)
        step = min(self.stride, room)
        for first in range(0, max(1, len(ids) - room + step), step):
            part = slice(first, first + room)
            row = self._join(asked, ids[part])
            yield Row(row.tokens, row.segments, 2 + len(asked), _without_blanks(context, characters[part]))

    def batch(self, rows: Sequence[Row]) -> Batch:
        tokens = _padded([row.tokens for row in rows], self.pad)  # (B, L)
        places = torch.arange(tokens.shape[1])
        lengths = torch.tensor([[len(row.tokens)] for row in rows])
        starts = torch.tensor([[row.context_start] for row in rows])
        ends = starts + torch.tensor([[len(row.characters)] for row in rows])
        segments = _padded([row.segments for row in rows], 0)
        return Batch(tokens, places < lengths, segments, (places >= starts) & (places < ends))

    def _ids(self, text: str) -> list[int]:
        return self.tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]

    def _join(self, first: list[int], second: list[int] | None = None) -> Row:
        tokens = [self._start, *first, self._end]
        segments = [0] * len(tokens)
        if second is not None:
            tokens += [*second, self._end]
            segments += [1] * (len(second) + 1)
        return Row(tokens, segments)


def _padded(rows: list[list[int]], value: int) -> Tensor:  # (B, L)
    return pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=value)


def _without_blanks(text: str, characters: list[Characters]) -> list[Characters]:
    """Byte-level tokens hold the blank before a word, which is no part of an answer."""
    return [(end - len(text[start:end].lstrip()), end) for start, end in characters]
