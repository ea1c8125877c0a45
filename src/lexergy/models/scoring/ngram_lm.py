"""An n-gram LM with back-off, read by pocketsphinx."""

from functools import cached_property
from pathlib import Path
from typing import Any

from lexergy.errors import LexergyError

PACKAGED_NAME = "trigram"
UNKNOWN = -20.0  # nats of a word that is not in the vocabulary: a little less than the rarest that are


class NgramLM:
    """The LM of an ARPA file or of Sphinx's .lm.bin."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._unigrams: dict[str, float] = {}

    @classmethod
    def packaged(cls) -> "NgramLM":
        """The `trigram` LM of general American English inside the PyPI package pocketsphinx, lower-case."""
        return cls(Path(_pocketsphinx().__file__).parent / "model" / "en-us" / "en-us.lm.bin")

    @property
    def order(self) -> int:
        return self._lm.size()

    def log_prob(self, words: list[str]) -> float:
        """log p(last | the others), which pocketsphinx wants in reverse."""
        return max(UNKNOWN, self._log.log_to_ln(self._lm.prob(words[::-1])))

    def log_frequency(self, word: str) -> float:
        """log p(word) without any context."""
        if word not in self._unigrams:
            self._unigrams[word] = self.log_prob([word])
        return self._unigrams[word]

    @cached_property
    def _lm(self) -> Any:
        sphinx = _pocketsphinx()
        try:
            return sphinx.NGramModel(sphinx.Config(), self._log, str(self.path))
        except (RuntimeError, ValueError) as error:
            raise LexergyError(
                f"the n-gram LM in '{self.path}' cannot be read; expected an ARPA file or Sphinx's .lm.bin."
            ) from error

    @cached_property
    def _log(self) -> Any:
        return _pocketsphinx().LogMath()


def _pocketsphinx() -> Any:
    try:
        import pocketsphinx
    except ImportError:
        raise LexergyError("n-gram LMs need the package pocketsphinx; `pip install lexergy[ngram]`.") from None
    return pocketsphinx
