"""People's texts that false positives are calibrated on, and what they say of others (`core.detection.conformal`)."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from lexergy.core.conditions import RANGE
from lexergy.core.detection.conformal import (
    benjamini_hochberg,
    bin_of,
    check_level,
    length_bins,
    mondrian_p_values,
    texts_needed,
)
from lexergy.core.text_measures.two_sample import two_sample_p_value
from lexergy.data.detection.style import Style
from lexergy.errors import LexergyError

CLEAR_ABOVE = 0.2  # up to this p-value a text is not called people's
UNLIKE = 0.01  # p-value of the two-sample test below which texts are unlike those calibrated on
MOST_COMPARED = 300  # texts of either set in that test
SPARE = 2  # a bin of lengths holds so many times the texts that a level needs
_ROUNDING = 1e-9

Verdict = Literal["machine", "cannot tell", "people"]


@dataclass(frozen=True)
class PeopleTexts:
    """The energies of n texts that people wrote, how long each is, of which domain and style."""

    energies: tuple[float, ...]
    tokens: tuple[int, ...]
    domains: tuple[str, ...]
    styles: tuple[Style, ...]

    def __len__(self) -> int:
        return len(self.energies)

    def of_domain(self, domain: str) -> "PeopleTexts":
        """Those of one domain."""
        if domain not in self.domains:
            known = ", ".join(dict.fromkeys(self.domains))
            raise LexergyError(f"no calibration texts are of the domain `{domain}`; expected one of: {known}.")
        return self.chosen([place for place, name in enumerate(self.domains) if name == domain])

    def is_too_short(self, tokens: int) -> bool:
        """Whether a text has less than half the tokens of the shortest: nothing is known of people's as short."""
        return tokens < min(self.tokens) / RANGE

    def chosen(self, places: Sequence[int]) -> "PeopleTexts":
        """Some of them."""
        return PeopleTexts(
            tuple(self.energies[place] for place in places),
            tuple(self.tokens[place] for place in places),
            tuple(self.domains[place] for place in places),
            tuple(self.styles[place] for place in places),
        )


@dataclass(frozen=True)
class Accusation:
    """What people's texts say of one text.

    Of texts by people like those calibrated on, at most the share `p_value` has as high an energy. `adjusted` is the
    p-value after Benjamini and Hochberg over all texts asked about together.
    """

    p_value: float
    adjusted: float
    verdict: Verdict
    compared_with: int  # texts of people, of about its length


@dataclass(frozen=True)
class FalsePositives:
    """How many people may be accused: the share `rate` of people's texts, or of the texts accused (`among_accused`).

    A text is called people's where its p-value is above `clear_above`: of people's texts at most that share is not.
    """

    rate: float
    clear_above: float = CLEAR_ABOVE
    among_accused: bool = False

    def __post_init__(self) -> None:
        if not self.rate <= self.clear_above < 1:
            raise LexergyError(
                f"a text is called people's above a p-value of {self.clear_above:g}; expected at least the rate of "
                f"false positives, {self.rate:g}, and less than 1."
            )

    def verdict(self, p_value: float, adjusted: float) -> Verdict:
        if (adjusted if self.among_accused else p_value) <= self.rate + _ROUNDING:
            return "machine"
        return "people" if p_value > self.clear_above else "cannot tell"


def accuse(
    people: PeopleTexts, energies: Sequence[float], tokens: Sequence[int], allowed: FalsePositives
) -> list[Accusation]:
    """What people's texts of about its length say of each of N texts.

    Nobody says of which domain a text is, so its p-value is the largest among all domains: the rate then holds in
    each of them, not on average only. Domains of too few texts for the rate count as one. Nothing is
    told of a text that is much shorter than all of theirs.
    """
    check_level(allowed.rate, len(people))
    needed = texts_needed(allowed.rate)
    by_domain = [_compare(own, energies, tokens, SPARE * needed) for own in _domains(people, needed)]
    p_values, order = torch.stack([own.p_values for own in by_domain]).max(0)  # (N,)
    adjusted = benjamini_hochberg(p_values)
    return [
        Accusation(
            p_value,
            corrected,
            "cannot tell" if people.is_too_short(tokens[place]) else allowed.verdict(p_value, corrected),
            by_domain[worst].counts[place],
        )
        for place, (p_value, corrected, worst) in enumerate(
            zip(p_values.tolist(), adjusted.tolist(), order.tolist(), strict=True)
        )
    ]


class _Compared(NamedTuple):
    p_values: Tensor  # (N,)
    counts: list[int]  # of people's texts that each is compared with


def _compare(people: PeopleTexts, energies: Sequence[float], tokens: Sequence[int], per_bin: int) -> _Compared:
    edges = length_bins(people.tokens, per_bin)
    bins, own = ([bin_of(count, edges) for count in counts] for counts in (people.tokens, tokens))
    calibration = torch.tensor(people.energies, dtype=torch.double)
    p_values = mondrian_p_values(torch.tensor(energies, dtype=torch.double), own, calibration, bins)
    return _Compared(p_values, [bins.count(edge) for edge in own])


def _domains(people: PeopleTexts, needed: int) -> list[PeopleTexts]:
    """The texts of each domain; where one has fewer than needed, all those and, if they are too few, all texts."""
    sizes = Counter(people.domains)
    large = [domain for domain, size in sizes.items() if size >= needed]
    rest = [place for place, domain in enumerate(people.domains) if domain not in large]
    if 0 < len(rest) < needed:
        rest = list(range(len(people)))
    return [*([people.chosen(rest)] if rest else []), *(people.of_domain(domain) for domain in large)]


def length_warnings(people: PeopleTexts, tokens: int) -> tuple[str, ...]:
    """Said of a text that is too short to be compared with theirs."""
    if not people.is_too_short(tokens):
        return ()
    least = min(people.tokens)
    return (f"{tokens} tokens are too few to tell: people's texts that it is compared with have {least} or more",)


def shift_warning(people: PeopleTexts, styles: Sequence[Style]) -> str | None:
    """A sentence where texts, as a detector reads them, are of another style than those calibrated on.

    By a permutation test of the energy distance of `Style`s (`core.text_measures.two_sample`). Whether people or
    machines wrote them may change the style, too: a folder of machine text can be unlike people's for that alone.
    """
    if not styles:
        return None
    p_value = two_sample_p_value(_spread(people.styles), _spread(styles))
    if p_value > UNLIKE:
        return None
    return (
        f"the texts are unlike those of people that false positives are calibrated on (two-sample test of length and "
        f"style, p = {p_value:.3g}): the rate holds for texts like those only; give your own with `--calibrate`"
    )


def _spread(styles: Sequence[Style]) -> Tensor:  # (N, F)
    """At most so many, evenly spread."""
    step = max(1, -(-len(styles) // MOST_COMPARED))
    return torch.tensor(styles[::step], dtype=torch.double)
