"""A continuation among those that a joint model chooses from."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Candidate:
    """One continuation drawn from the LM."""

    text: str  # empty when the LM has no tokenizer
    energy: float
    log_prob: float  # under the (truncated) distribution it was drawn from
    weight: float  # its probability of being chosen
    tokens: tuple[int, ...] = ()  # up to and with the stop token where there is one; early runs kept none
