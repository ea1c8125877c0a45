"""Every kind of scorer, and which of them a model is for. A new one is a file here and a line in `KINDS`."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from lexergy.errors import LexergyError
from lexergy.models.scoring import causal, electric, masked, ngram, remote, two_tower
from lexergy.models.scoring.scorer import TextScorer
from lexergy.models.scoring.source import ModelSource
from lexergy.storage import fetched_source


class Kind(NamedTuple):
    """Whether a model is of this kind, and how its scorer is made."""

    matches: Callable[[ModelSource], bool]
    load: Callable[[ModelSource], TextScorer]


KINDS = {
    "an n-gram LM": Kind(ngram.matches, ngram.load),  # first: its file has no configuration to be read
    "an LM behind an address": Kind(remote.matches, remote.load),  # nor has an address
    "a causal LM": Kind(causal.matches, causal.load),
    "Electric": Kind(electric.matches, electric.load),
    "a two-tower model": Kind(two_tower.matches, two_tower.load),
    "a masked LM with its head": Kind(masked.matches, masked.load),
}


def load_scorer(source: str | Path) -> TextScorer:
    """The scorer of a folder, a Hub name, a GGUF file, `smollm2-135m`, `trigram`; what it holds decides the kind.

    Examples:
        >>> import tempfile
        >>> from lexergy import load_scorer
        >>> from lexergy.testing import EnumerableMaskedLM
        >>> folder = tempfile.mkdtemp()
        >>> EnumerableMaskedLM().save_pretrained(folder)
        >>> scorer = load_scorer(folder)
        >>> scorer.kind, scorer.passes
        ('masked-LM PLL', 'n')
        >>> score, = scorer.score(["the state of union"])
        >>> len(score.log_scores), score.log_score == sum(score.log_scores)
        (4, True)
    """
    model = ModelSource(fetched_source(source))
    for kind in KINDS.values():
        if kind.matches(model):
            return kind.load(model)
    *names, last = KINDS
    raise LexergyError(
        f"'{model.name}' holds a model of type {model.model_type!r} ({model.architecture or 'no architecture named'}); "
        f"expected {', '.join(names)} or {last}; choose another model."
    )
