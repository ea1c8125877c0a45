"""Whether an energy is used as it was trained: lengths, decoding and ends, told in numbers where they differ."""

from dataclasses import dataclass, field

from lexergy.core.decoding import Decoding

RANGE = 2.0  # an energy of continuations of 32 tokens is at home from 16 to 64


class UnlikeTrainingWarning(UserWarning):
    """An energy reads text unlike that which it was trained on."""


def is_unlike(here: float, trained: float) -> bool:
    """Whether a number is less than half, or more than twice, that of the training."""
    return not trained / RANGE <= here <= trained * RANGE


@dataclass(frozen=True)
class Conditions:
    """What an energy reads: continuations of a prefix, in tokens, by people or by an LM decoded like this.

    With `ends`, continuations may be shorter: they end at the LM's end-of-text, as documents do.
    """

    prefix: int
    continuation: int
    decoding: Decoding = field(default_factory=Decoding)
    ends: bool = False

    def differences(
        self, prefix: int, continuation: int, decoding: Decoding, ended: int = 0, candidates: int = 0
    ) -> list[str]:
        """Sentences about a use of the energy unlike these, its training's, conditions; none if it is like them.

        `ended` of the `candidates` end otherwise than texts did in training.
        """
        told = []
        if is_unlike(prefix, self.prefix) or is_unlike(continuation, self.continuation):
            told.append(
                f"the energy was trained on prefixes of {self.prefix} tokens and continuations of "
                f"{self.continuation}; here the prompt has {prefix} and {continuation} are written"
            )
        if describe(decoding) != describe(self.decoding):
            told.append(
                f"the energy was trained against {describe(self.decoding)} samples of the LM; candidates here are "
                f"{describe(decoding)}"
            )
        if ended:
            usual = f"{self.continuation} tokens or up to end-of-text" if self.ends else f"{self.continuation} tokens"
            told.append(
                f"the energy was trained on continuations of {usual}; {ended} of {candidates} candidates here stop "
                "sooner"
            )
        return told


def describe(decoding: Decoding) -> str:
    """A way of decoding in a few words: `untruncated`, or `top-k 10, temperature 0.7`."""
    parts = [
        "" if decoding.top_k is None else f"top-k {decoding.top_k}",
        "" if decoding.top_p in (None, 1) else f"top-p {decoding.top_p:g}",
        "" if decoding.temperature == 1 else f"temperature {decoding.temperature:g}",
    ]
    return ", ".join(part for part in parts if part) or "untruncated"
