"""A continuation among those that a joint model chooses from."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Candidate:
    """One continuation drawn from the LM."""

    text: str  # empty when the LM has no tokenizer
    energy: float
    log_prob: float  # under the (truncated) distribution it was drawn from; NaN where a server does not tell
    weight: float  # its probability of being chosen
    tokens: tuple[int, ...] = ()  # up to and with the stop token where there is one; early runs kept none


@dataclass(frozen=True)
class GivenCandidate:
    """One continuation from anywhere, as text or as token ids of the LM, to be weighed."""

    text: str = ""
    tokens: tuple[int, ...] | None = None  # taken before the text, which may be told apart into tokens in several ways
    log_prob: float | None = None  # under the distribution that it was drawn from, where that is another than the LM
