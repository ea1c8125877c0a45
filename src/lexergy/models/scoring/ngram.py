"""Log-scores of texts by an n-gram LM with back-off."""

import re
from collections.abc import Sequence

from lexergy.models.scoring.ngram_lm import PACKAGED_NAME, NgramLM
from lexergy.models.scoring.scorer import TextScore
from lexergy.models.scoring.source import ModelSource

START = "<s>"
SUFFIXES = (".lm.bin", ".lm", ".arpa")


def matches(source: ModelSource) -> bool:
    return source.name == PACKAGED_NAME or source.name.endswith(SUFFIXES)


def load(source: ModelSource) -> "NgramScorer":
    """The LM of a file, or the one that is packaged."""
    return NgramScorer(NgramLM.packaged() if source.name == PACKAGED_NAME else NgramLM(source.name))


class NgramScorer:
    """log p(w_t | w_{t-2}, w_{t-1}) of each word, without that of the end: `scorer.score(texts)`.

    The texts are taken as they are, words between blanks: lower-case without punctuation for the LM `trigram`.
    """

    kind = "n-gram log-likelihood"
    passes = "0"
    edition = ""

    def __init__(self, lm: NgramLM) -> None:
        self._lm = lm

    def score(self, texts: Sequence[str]) -> list[TextScore]:
        """The scores of the texts, in their order."""
        return [self._score(text) for text in texts]

    def log_frequencies(self, texts: Sequence[str]) -> list[list[float]]:
        """log p(w_t) of each word, the LM's unigrams."""
        return [[self._lm.log_frequency(word) for word in text.split()] for text in texts]

    def _score(self, text: str) -> TextScore:
        matches = list(re.finditer(r"\S+", text))
        words = [START] + [match.group() for match in matches]
        order = self._lm.order
        scores = [self._lm.log_prob(words[max(0, place + 1 - order) : place + 1]) for place in range(1, len(words))]
        return TextScore(tuple(scores), tuple(match.span() for match in matches))
