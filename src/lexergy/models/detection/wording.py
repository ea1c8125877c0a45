"""How a block of tokens is worded, as text."""

from collections.abc import Container

import numpy as np
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from lexergy.core.detection.wording import Wording
from lexergy.data.detection.habits import habits_of
from lexergy.data.detection.phrases import phrases_of


def wording_of(tokenizer: PreTrainedTokenizerBase, ids: Tensor, common: Container[str]) -> Wording:  # (L,)
    """Of all tokens; places are among the L - 1 that are predicted, the first token's with the second's."""
    text = str(tokenizer.decode(ids))
    phrases = phrases_of(text, common)
    # Where each token ends, exact for tokens that are pieces of the text, byte by byte.
    lengths = [len(str(tokenizer.decode([token]))) for token in ids.tolist()]
    ends = np.cumsum(lengths) * (len(text) / max(1, sum(lengths)))  # (L,)
    tokens = np.searchsorted(ends, [phrase.end - 1e-6 for phrase in phrases])
    places = (tokens - 1).clip(0, max(0, len(ids) - 2))
    return Wording(
        phrases=tuple(phrase.name for phrase in phrases),
        places=tuple(places.tolist()),
        habits=tuple(habits_of(text, len(ids))),
    )
