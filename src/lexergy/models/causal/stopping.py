"""Strings at which a text stops, wherever they lie among its tokens."""

from collections.abc import Sequence

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from lexergy.errors import LexergyError


class StopStrings:
    """Texts are drawn until one of these strings is in what was written; they are read without it.

    Whether a text has stopped is a function of the tokens drawn so far, so that a stopped text is an exact draw of the
    LM that stops there: its tokens are all that were drawn, up to the one that completed the string.
    """

    def __init__(self, strings: Sequence[str], tokenizer: PreTrainedTokenizerBase) -> None:
        if isinstance(strings, str) or not all(strings):
            raise LexergyError(f"`stop` is {strings!r}; expected a list of strings, none of them empty, as ['\\n'].")
        self.strings = tuple(strings)
        self.tokenizer = tokenizer

    def first_in(self, tokens: Sequence[int]) -> int | None:
        """How many tokens a row has up to the one that completes a string; None where it has no string."""
        for count in range(1, len(tokens) + 1):
            if bool(self.are_in(torch.tensor([tokens[:count]]))):
                return count
        return None

    def are_in(self, tokens: Tensor) -> Tensor:  # (R, t) -> (R,) bool
        """Whether the text of each row has one of the strings."""
        texts = self.tokenizer.batch_decode(tokens.tolist(), clean_up_tokenization_spaces=False)
        return torch.tensor([any(string in text for string in self.strings) for text in texts], device=tokens.device)


def cut(text: str, strings: Sequence[str]) -> str:
    """The text before the first of the strings; all of it if it has none."""
    return text[: min((place for string in strings if (place := text.find(string)) >= 0), default=len(text))]
