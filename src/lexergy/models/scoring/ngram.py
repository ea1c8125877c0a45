"""Log-scores of texts by an n-gram LM with back-off, read by pocketsphinx."""

import re
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from lexergy.errors import LexergyError
from lexergy.models.scoring.scorer import TextScore
from lexergy.models.scoring.source import ModelSource

START = "<s>"
PACKAGED_NAME = "trigram"
SUFFIXES = (".lm.bin", ".lm", ".arpa")
_UNKNOWN = -20.0  # nats of a word that is not in the vocabulary: a little less than the rarest that are


def matches(source: ModelSource) -> bool:
    return source.name == PACKAGED_NAME or source.name.endswith(SUFFIXES)


def load(source: ModelSource) -> "NgramScorer":
    """The LM of a file, or the `trigram` LM inside the PyPI package pocketsphinx."""
    if source.name != PACKAGED_NAME:
        return NgramScorer(source.name)
    return NgramScorer(Path(_pocketsphinx().__file__).parent / "model" / "en-us" / "en-us.lm.bin")


class NgramScorer:
    """log p(w_t | w_{t-2}, w_{t-1}) of each word, without that of the end: `scorer.score(texts)`.

    The texts are taken as they are, words between blanks: lower-case without punctuation for the LM `trigram`, general
    American English, that comes with pocketsphinx.
    """

    kind = "n-gram log-likelihood"
    passes = "0"
    edition = ""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

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

    def score(self, texts: Sequence[str]) -> list[TextScore]:
        """The scores of the texts, in their order."""
        return [self._score(text) for text in texts]

    def log_frequencies(self, texts: Sequence[str]) -> list[list[float]]:
        """log p(w_t) of each word, the LM's unigrams."""
        return [[self._log_prob([word]) for word in text.split()] for text in texts]

    def _score(self, text: str) -> TextScore:
        matches = list(re.finditer(r"\S+", text))
        words = [START] + [match.group() for match in matches]
        order = self._lm.size()
        scores = [self._log_prob(words[max(0, place + 1 - order) : place + 1]) for place in range(1, len(words))]
        return TextScore(tuple(scores), tuple(match.span() for match in matches))

    def _log_prob(self, words: list[str]) -> float:
        """log p(last | the others), which pocketsphinx wants in reverse."""
        return max(_UNKNOWN, self._log.log_to_ln(self._lm.prob(words[::-1])))


def _pocketsphinx() -> Any:
    try:
        import pocketsphinx
    except ImportError:
        raise LexergyError("n-gram LMs need the package pocketsphinx; `pip install lexergy[ngram]`.") from None
    return pocketsphinx
