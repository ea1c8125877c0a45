"""What every language model answers, wherever it runs: in this process or behind somebody's address."""

import copy
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from lexergy.core.ends import lengths_until
from lexergy.errors import LexergyError
from lexergy.models.causal.samples import Samples
from lexergy.models.causal.state_features import StateFeatures
from lexergy.recipes.sections.shapes import Direction

PREFIXES_AT_ONCE = 256  # whose keys and values are held at once


class LanguageModel(ABC):
    """A distribution over the continuations of a prefix: draws them, and tells their log-probabilities.

    `forbidden_tokens` have probability zero; `start_token` stands before each prefix; `end_token` ends a text, and what
    stands after it in a row is padding. `CausalLM` runs the model here, `RemoteLM` asks a server.
    """

    tokenizer: PreTrainedTokenizerBase | None
    forbidden_tokens: tuple[int, ...]
    start_token: int | None
    end_token: int | None
    source: str | None
    direction: Direction

    @property
    @abstractmethod
    def vocab_size(self) -> int: ...

    @property
    @abstractmethod
    def max_length(self) -> int | None:
        """The most tokens the model reads, its start token apart."""

    @property
    def name(self) -> str:
        """Which LM it is, in a few words."""
        return str(self.source)

    @property
    def device(self) -> torch.device:
        """Where its tensors lie."""
        return torch.device("cpu")

    @property
    def unscored(self) -> str | None:
        """Why it tells no log-probabilities of given texts; None where it does."""
        return None

    @abstractmethod
    def sample(
        self,
        prefix_tokens: Tensor,  # (B, P)
        *,
        num_samples: int,
        max_new_tokens: int,
        top_k: int | None = None,
        top_p: float | None = None,
        temperature: float = 1.0,
        seed: int = 0,
        stop: Sequence[str] = (),
        prefix_ids: Sequence[int] | None = None,
        first_sample: int = 0,
        rows_per_batch: int = PREFIXES_AT_ONCE,
        features: StateFeatures | None = None,
        given_length: int = 0,
    ) -> Samples:
        """Draw K continuations of each prefix, with their log-probabilities, as `CausalLM.sample` tells."""

    @abstractmethod
    def token_log_prob(self, tokens: Tensor, *, prefix_length: int) -> Tensor:
        """log p_LM(x_t | x_<t) of each continuation token of rows (B, L): (B, C) float64, 0 after the end token."""

    @abstractmethod
    def next_log_prob(self, prefix_tokens: Tensor) -> Tensor:
        """The distribution of the next token, (B, P) -> (B, V), -inf for forbidden tokens."""

    @abstractmethod
    def state_features(
        self, tokens: Tensor, *, prefix_length: int, features: StateFeatures, lengths: Tensor | None = None
    ) -> Tensor:
        """What the sampler would have handed on, had it drawn the continuations of rows (B, L): (B, F)."""

    @abstractmethod
    def next_token_features(
        self, prefix_tokens: Tensor, tokens: Tensor, *, given_length: int, features: StateFeatures
    ) -> Tensor:
        """What it would have handed on, had it drawn each of these tokens: (B, P), (M,) -> (B, M, F)."""

    @abstractmethod
    def fingerprint(self) -> str:
        """A hash of what decides its distribution, for provenance."""

    @abstractmethod
    def save_pretrained(self, folder: str | Path) -> None:
        """Write what `open_lm(folder)` reads."""

    def log_prob(self, tokens: Tensor, *, prefix_length: int) -> Tensor:
        """log p_LM(continuation | prefix) of rows (B, L), summed over the continuation: (B,) float64."""
        return self.token_log_prob(tokens, prefix_length=prefix_length).sum(-1)

    def sample_chunks(
        self, prefix_tokens: Tensor, *, num_samples: int, chunk_size: int, **kwargs: Any
    ) -> Iterator[Samples]:
        """The same samples as `sample`, a slice of at most `chunk_size` per prefix at a time."""
        first = kwargs.pop("first_sample", 0)
        for done in range(0, num_samples, chunk_size):
            count = min(chunk_size, num_samples - done)
            yield self.sample(prefix_tokens, num_samples=count, first_sample=first + done, **kwargs)

    @property
    def special_tokens(self) -> tuple[int, ...]:
        """Ids of the tokenizer's control tokens, those that plain text never contains."""
        if self.tokenizer is None:
            return ()
        return tuple(sorted(i for i, token in self.tokenizer.added_tokens_decoder.items() if token.special))

    @property
    def end_of_text(self) -> int | None:
        """The tokenizer's end-of-text token, whether this LM may write it or not."""
        return None if self.tokenizer is None else self.tokenizer.eos_token_id

    @property
    def may_end(self) -> bool:
        """Whether it writes end-of-text: it has an end token, or end-of-text is not forbidden."""
        return self.end_token is not None or self.end_of_text not in (None, *self.forbidden_tokens)

    def ending(self, end_token: int | None = None) -> Self:
        """The same LM, whose texts end at this token, end-of-text unless given, though it may be forbidden here."""
        end_token = self.end_token if end_token is None else end_token
        end_token = self.end_of_text if end_token is None else end_token
        if end_token is None:
            raise LexergyError(
                "this LM has no end-of-text token; expected one in its tokenizer; name a token, `lm.ending(token)`, or "
                "stop at strings."
            )
        return self._with_end(end_token, set(self.forbidden_tokens) - {end_token})

    def endless(self) -> Self:
        """The same LM, which may not write end-of-text and goes on."""
        ends = {self.end_token, self.end_of_text} - {None}
        return self._with_end(None, {*self.forbidden_tokens, *ends})  # type: ignore[arg-type]

    def without_special_tokens(self) -> Self:
        """The same LM, which may write none of its tokenizer's control tokens."""
        return self._with_end(None, self.special_tokens)

    def within_call(self, num_rows: int) -> Self:
        """The same LM, for parts of a call of so many rows: each is computed as the whole would be."""
        return self

    def on_one_runtime(self, num_rows: int) -> Self:
        """The same LM, whose given texts are read by what samples in calls of so many rows, with the same prefixes."""
        return self

    def _with_end(self, end_token: int | None, forbidden_tokens: Collection[int]) -> Self:
        lm = copy.copy(self)
        lm.end_token, lm.forbidden_tokens = end_token, tuple(sorted(forbidden_tokens))
        return lm

    def lengths(self, continuations: Tensor) -> Tensor:  # (..., C) -> (...)
        """How many tokens of each are text: up to this LM's end token, that included, where it has one."""
        return lengths_until(continuations, self.end_token)

    def have_ended(self, continuations: Tensor) -> Tensor:  # (..., C) -> (...) bool
        """Whether each has this LM's end token."""
        return (continuations == (-1 if self.end_token is None else self.end_token)).any(-1)

    def with_start(self, prefix: Tensor) -> Tensor:
        """Prefixes or rows (B, P) with the start token before them, where this LM needs one."""
        if self.start_token is None:
            return prefix
        return torch.cat((prefix.new_full((len(prefix), 1), self.start_token), prefix), 1)

    def encode(self, text: str) -> Tensor:
        """Token ids (P,) of a text, without special tokens."""
        ids = self.need_tokenizer()(text, add_special_tokens=False)["input_ids"]
        return torch.tensor(ids, dtype=torch.long)

    def decode(self, tokens: Tensor) -> list[str]:
        """The texts of token rows (..., C), flattened to a list."""
        rows = tokens.reshape(-1, tokens.shape[-1]).tolist()
        return self.need_tokenizer().batch_decode(rows, clean_up_tokenization_spaces=False)

    def need_tokenizer(self) -> PreTrainedTokenizerBase:
        if self.tokenizer is None:
            raise LexergyError("this LM has no tokenizer; pass token ids, or give it one: CausalLM(model, tokenizer).")
        return self.tokenizer

    def check_counts(self, num_samples: int, max_new_tokens: int) -> None:
        """Refuse to draw nothing."""
        for name, value in (("num_samples", num_samples), ("max_new_tokens", max_new_tokens)):
            if value < 1:
                raise LexergyError(f"`{name}` is {value}; expected at least 1.")

    def check_prefix(self, prefix: Tensor, max_new_tokens: int) -> Tensor:
        """The prefixes (B, P) on the model's device, if it can continue them by so many tokens."""
        prefix = torch.as_tensor(prefix, device=self.device)
        if prefix.dim() != 2:
            raise LexergyError(
                f"prefix tokens have shape {tuple(prefix.shape)}; expected (prefixes, length); "
                "add a dimension with `[None]`."
            )
        if prefix.shape[1] == 0 and self.start_token is None:
            raise LexergyError("the prefix is empty; expected at least one token to continue from.")
        if self.max_length is not None and prefix.shape[1] + max_new_tokens > self.max_length:
            raise LexergyError(
                f"{prefix.shape[1]} prefix and {max_new_tokens} new tokens are more than the {self.max_length} "
                "the model can read; shorten the prompt or ask for fewer new tokens."
            )
        if prefix.numel() and not 0 <= int(prefix.min()) <= int(prefix.max()) < self.vocab_size:
            raise LexergyError(
                f"token ids run from {int(prefix.min())} to {int(prefix.max())}; expected 0 .. {self.vocab_size - 1}; "
                "were they made by another tokenizer?"
            )
        return prefix

    def check_rows(self, tokens: Tensor, prefix_length: int) -> Tensor:
        """Rows (B, L) on the model's device, if there is something to score after so many tokens."""
        tokens = self.check_prefix(tokens, 0)
        least = 0 if self.start_token is not None else 1
        if not least <= prefix_length < tokens.shape[1]:
            raise LexergyError(
                f"`prefix_length` is {prefix_length}; expected {least} .. {tokens.shape[1] - 1} for rows of "
                f"{tokens.shape[1]} tokens."
            )
        return tokens
