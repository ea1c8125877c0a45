"""Reading an LM's tokens as text: decoding, and a reader's own tokens of prefix and continuation."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from lexergy.errors import LexergyError
from lexergy.models.causal.language_model import LanguageModel


class Rows(NamedTuple):
    """N sequences as a backbone reads them."""

    tokens: Tensor  # (N, L)
    attention: Tensor | None  # (N, L), False on padding; None without padding
    continuation: Tensor  # (N, L), True on the continuation

    @property
    def present(self) -> Tensor:
        """(N, L), True on everything but padding."""
        return torch.ones_like(self.continuation) if self.attention is None else self.attention

    @property
    def first(self) -> Tensor:
        """(N, L), True on the first position, where an encoder's tokenizer puts its class token."""
        return torch.arange(self.tokens.shape[1], device=self.tokens.device).expand_as(self.tokens) == 0


def whole_sequences(prefix: Tensor, continuations: Tensor) -> Tensor:
    """Each continuation after its prefix: (B, P), (B, K, C) -> (B K, P + C)."""
    repeated = prefix.unsqueeze(1).expand(-1, continuations.shape[1], -1)  # (B, K, P)
    return torch.cat((repeated, continuations), -1).flatten(0, 1)


def sequence_batches(prefix: Tensor, continuations: Tensor, rows_per_batch: int) -> Iterator[Tensor]:
    """The same sequences (N, L), at most `rows_per_batch` at a time, in order, never all in memory."""
    num_samples = continuations.shape[1]
    flat = continuations.flatten(0, 1)  # (B K, C)
    for start in range(0, len(flat), rows_per_batch):
        rows = flat[start : start + rows_per_batch]
        owner = torch.arange(start, start + len(rows), device=flat.device) // num_samples
        yield whole_sequences(prefix[owner], rows.unsqueeze(1))


def by_prefix(scores: list[Tensor], continuations: Tensor) -> Tensor:
    """(B, K) from the scores of those batches."""
    if not scores:
        return torch.zeros(continuations.shape[:2], device=continuations.device)
    return torch.cat(scores).view(continuations.shape[:2])


def decode(tokenizer: PreTrainedTokenizerBase, tokens: Tensor) -> list[str]:
    """The text of each row (N, L), special tokens (and so the padding after a stop token) left out."""
    return tokenizer.batch_decode(tokens, skip_special_tokens=True, clean_up_tokenization_spaces=False)


def token_rows(prefix: Tensor, continuations: Tensor) -> Rows:
    """Sequences in the LM's own tokens."""
    tokens = whole_sequences(prefix, continuations)
    positions = torch.arange(tokens.shape[1], device=tokens.device)
    return Rows(tokens, None, (positions >= prefix.shape[1]).expand_as(tokens))


class ReadText(NamedTuple):
    """A prefix and its continuation in a reader's own tokens."""

    tokens: list[int]  # L
    continuation: list[bool]  # L


class TextReader:
    """From the LM's tokens through text to the reader's tokens, people's text and samples alike.

    Prefix and continuation are decoded together, so that nothing marks the boundary. A wordpiece with any
    character of the continuation belongs to the continuation. Sequences longer than `max_length` lose the
    beginning of their prefix, never any of the continuation. An encoder reads its special tokens too; a causal LM
    (`special_tokens` False) reads text alone.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, max_length: int, *, special_tokens: bool = True) -> None:
        if not tokenizer.is_fast:
            raise LexergyError(
                f"{type(tokenizer).__name__} gives no character offsets; expected a fast tokenizer "
                "(a tokenizer.json in the reader's folder)."
            )
        self.tokenizer = tokenizer
        self.max_length = min(max_length, tokenizer.model_max_length)
        self.special_tokens = special_tokens
        example = tokenizer("a", add_special_tokens=special_tokens, return_special_tokens_mask=True)
        special, ids = example["special_tokens_mask"], example["input_ids"]
        first = special.index(0)
        self._before, self._after = (
            ids[:first],
            [id for id, mark in zip(ids[first:], special[first:], strict=True) if mark],
        )

    @property
    def most_tokens(self) -> int:
        """The most tokens of a text that fit beside the special ones."""
        return self.max_length - len(self._before) - len(self._after)

    @property
    def edges(self) -> tuple[list[int], list[int]]:
        """The special tokens before and after a text."""
        return self._before, self._after

    def own_rows(self, texts: Sequence[list[int]], device: torch.device) -> Rows:
        """Texts in the encoder's own tokens, without special ones, padded on the right; all is continuation."""
        rows = [
            ReadText(
                [*self._before, *ids, *self._after],
                [False] * len(self._before) + [True] * len(ids) + [False] * len(self._after),
            )
            for ids in texts
        ]
        return self.pad(rows, device)

    def rows(self, lm_tokenizer: PreTrainedTokenizerBase, prefix: Tensor, continuations: Tensor) -> Rows:
        """The reader's tokens (B K, L) of the text of each sequence, padded on the right."""
        return self.pad(self.read(lm_tokenizer, prefix, continuations), prefix.device)

    def read(self, lm_tokenizer: PreTrainedTokenizerBase, prefix: Tensor, continuations: Tensor) -> list[ReadText]:
        """The text of each sequence, B K of them."""
        beginnings = [text for text in decode(lm_tokenizer, prefix) for _ in range(continuations.shape[1])]
        texts = decode(lm_tokenizer, whole_sequences(prefix, continuations))
        # The end of a prefix may decode otherwise on its own (half a character, a trailing space).
        boundaries = [common_length(*pair) for pair in zip(beginnings, texts, strict=True)]
        encoded = self.tokenizer(
            texts,
            add_special_tokens=self.special_tokens,
            truncation=False,
            return_offsets_mapping=True,
            return_special_tokens_mask=True,
            return_attention_mask=False,
            verbose=False,
        )
        return [self._fit(encoded, row, boundary) for row, boundary in enumerate(boundaries)]

    def _fit(self, encoded: Any, row: int, boundary: int) -> ReadText:
        """Tokens of one row and whether each is of the continuation, at most `max_length` of them."""
        tokens = encoded["input_ids"][row]
        special = encoded["special_tokens_mask"][row]
        ends = [end for _, end in encoded["offset_mapping"][row]]
        continuation = [not mark and end > boundary for mark, end in zip(special, ends, strict=True)]
        excess = max(0, len(tokens) - self.max_length)
        droppable = [i for i in range(len(tokens)) if not special[i] and not continuation[i]]
        if excess > len(droppable):
            raise LexergyError(
                f"a continuation has {sum(continuation)} tokens of the reader, which reads at most "
                f"{self.max_length} with its special tokens; use shorter continuations or another reader."
            )
        dropped = set(droppable[:excess])
        kept = [i for i in range(len(tokens)) if i not in dropped]
        return ReadText([tokens[i] for i in kept], [continuation[i] for i in kept])

    def pad(self, rows: Sequence[ReadText], device: torch.device) -> Rows:
        """Texts as one tensor, padded on the right."""
        length = max(len(tokens) for tokens, _ in rows)
        pad = self.tokenizer.pad_token_id or 0
        shape = (len(rows), length)
        tokens = torch.full(shape, pad, dtype=torch.long)
        attention, continuation = torch.zeros(shape, dtype=torch.bool), torch.zeros(shape, dtype=torch.bool)
        for row, (ids, marks) in enumerate(rows):
            tokens[row, : len(ids)] = torch.tensor(ids)
            attention[row, : len(ids)] = True
            continuation[row, : len(ids)] = torch.tensor(marks)
        return Rows(tokens.to(device), attention.to(device), continuation.to(device))


def decoder_of(lm_tokenizer: PreTrainedTokenizerBase | None) -> PreTrainedTokenizerBase:
    """The LM's tokenizer, once an energy that reads text knows it."""
    if lm_tokenizer is None:
        raise LexergyError(
            "this energy reads text and does not know the LM's tokenizer; expected "
            "`energy.bind(lm.tokenizer)` or `as_energy(energy, lm)` before the first score."
        )
    return lm_tokenizer


def check_decodes(lm: LanguageModel) -> None:
    """Refuse an LM whose tokens cannot be turned into text."""
    if lm.tokenizer is None:
        raise LexergyError(
            "this energy reads text and the LM has no tokenizer to decode with; expected "
            "`CausalLM(model, tokenizer)`; or use an energy that reads tokens."
        )


def max_positions(backbone: PreTrainedModel) -> int:
    """The most positions an encoder has; RoBERTa's kind counts them from after its padding index."""
    positions = getattr(getattr(backbone, "embeddings", None), "position_embeddings", None)
    limit = getattr(backbone.config, "max_position_embeddings", None) or 2**31
    padding = getattr(positions, "padding_idx", None)
    return limit if padding is None else limit - padding - 1


def common_length(first: str, second: str) -> int:
    """How many characters two texts have in common at their beginning."""
    if second.startswith(first):
        return len(first)
    return next(i for i in range(len(first)) if first[i] != second[i : i + 1])
