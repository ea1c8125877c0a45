"""From the words of tokens back to their ids, for servers that tell no ids."""

import re
from collections.abc import Sequence
from functools import cached_property

from transformers import PreTrainedTokenizerBase
from transformers.convert_slow_tokenizer import bytes_to_unicode

from lexergy.errors import LexergyError

_ID = re.compile(r"token_id:(\d+)")
_BYTES = re.compile(r"bytes:((?:\\x[0-9a-fA-F]{2})+)")
_BYTE_TOKEN = re.compile(r"<0x([0-9A-F]{2})>")
_SPACE = "\u2581"  # what SentencePiece writes for a blank


class TokenWords:
    """The bytes of each token of a tokenizer; OpenAI writes half a letter as `bytes:\\xe2\\x80`."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self.tokenizer = tokenizer

    def ids(self, words: Sequence[str]) -> list[int]:
        """The token of each word."""
        return [self._id(word) for word in words]

    def _id(self, word: str) -> int:
        if named := _ID.fullmatch(word):
            return int(named[1])
        spelt = _BYTES.fullmatch(word)
        content = bytes.fromhex(spelt[1].replace("\\x", "")) if spelt else word.encode()
        if content not in self._known:
            raise LexergyError(
                f"the server wrote the token {word!r}, which the local tokenizer does not have; expected the tokenizer "
                "of the model that it serves; name it as `tokenizer`."
            )
        return self._known[content]

    @cached_property
    def _known(self) -> dict[bytes, int]:
        pieces = self.tokenizer.convert_ids_to_tokens(list(range(len(self.tokenizer))))
        special = self.tokenizer.added_tokens_decoder
        known: dict[bytes, int] = {}
        for token, piece in enumerate(pieces):
            if piece is not None:
                known.setdefault(piece.encode() if token in special else self._content(piece), token)
        return known

    def _content(self, piece: str) -> bytes:
        if self._is_byte_level:
            return bytes(self._bytes[letter] for letter in piece if letter in self._bytes)
        if byte := _BYTE_TOKEN.fullmatch(piece):
            return bytes.fromhex(byte[1])
        return piece.replace(_SPACE, " ").encode()

    @cached_property
    def _bytes(self) -> dict[str, int]:
        return {letter: byte for byte, letter in bytes_to_unicode().items()}

    @cached_property
    def _is_byte_level(self) -> bool:
        backend = getattr(self.tokenizer, "backend_tokenizer", None)
        return backend is not None and "ByteLevel" in str(backend.decoder)
