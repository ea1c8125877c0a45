"""What a detector was trained on, so that it can say when it is asked about something else."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from lexergy.core.conditions import RANGE

ENERGY_SLACK = 0.5  # an energy is far outside of those seen when it is more than this share of their range away


class EnergyRange(NamedTuple):
    """The least and the highest energy of texts of `tokens` or more, up to twice as many."""

    tokens: int
    low: float
    high: float


@dataclass(frozen=True)
class TrainingConditions:
    """Lengths, energies and writers of the texts that a detector was trained and calibrated on."""

    fewest_tokens: int
    most_tokens: int
    energies: tuple[EnergyRange, ...]  # the shortest first
    people: tuple[str, ...]  # where their texts are from
    machines: tuple[str, ...]  # the same, or which LMs wrote them and how they were decoded

    def warnings(self, energy: float, tokens: int) -> Iterator[str]:
        """In what a text is unlike them."""
        if not self.fewest_tokens / RANGE <= tokens <= self.most_tokens * RANGE:
            yield f"{tokens} tokens, where training texts had {self.lengths}"
        seen = [own for own in self.energies if own.tokens <= tokens] or self.energies[:1]
        if seen:
            _, low, high = seen[-1]
            slack = ENERGY_SLACK * (high - low)
            if not low - slack <= energy <= high + slack:
                yield f"energy {energy:+.2f}, where texts as long had {low:+.2f} to {high:+.2f}: another kind of text?"

    @property
    def lengths(self) -> str:
        """In words."""
        fewest, most = self.fewest_tokens, self.most_tokens
        return f"{fewest} to {most}" if most > fewest else str(most)


def energy_ranges(energies: Sequence[float], tokens: Sequence[int], lengths: Sequence[int]) -> tuple[EnergyRange, ...]:
    """The range of energies of texts from each of the ascending `lengths` to the next."""
    ends = [*lengths[1:], float("inf")]
    by_length = (
        (start, [energy for energy, count in zip(energies, tokens, strict=True) if start <= count < end])
        for start, end in zip(lengths, ends, strict=True)
    )
    return tuple(EnergyRange(start, min(own), max(own)) for start, own in by_length if own)
