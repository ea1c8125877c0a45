"""An LM that is tuned to chat, asked in its own form."""

import torch
from torch import Tensor

from lexergy.errors import LexergyError
from lexergy.models.causal.language_model import LanguageModel


class ChatLM:
    """Requests by an LM's chat template, and what of its samples is the answer; `lm` ends its texts.

    `called` is what an error calls the LM.
    """

    def __init__(self, lm: LanguageModel, called: str) -> None:
        if getattr(lm.need_tokenizer(), "chat_template", None) is None:
            raise LexergyError(f"{called} has no chat template; expected an instruction-tuned LM; name another.")
        self.lm = lm.ending()

    def request(self, text: str) -> Tensor:  # -> (P,)
        """Tokens after which the LM answers; the start token is none of them, since the LM puts its own before."""
        turn = {"role": "user", "content": text}
        prompt = self.lm.need_tokenizer().apply_chat_template([turn], tokenize=False, add_generation_prompt=True)
        ids = self.lm.encode(str(prompt)).tolist()
        return torch.tensor(without_start(ids, self.lm.start_token), dtype=torch.long)

    def answer(self, tokens: Tensor) -> str:  # (C,)
        """A sample's text, without its end token and the blanks around it."""
        length = int(self.lm.lengths(tokens)) - int(self.lm.have_ended(tokens))
        return self.lm.decode(tokens[:length])[0].strip() if length else ""


def without_start(ids: list[int], start_token: int | None) -> list[int]:
    """A prompt that a template may have begun with the start token, which the LM itself puts before every row."""
    return ids[1:] if ids[:1] == [start_token] else ids
