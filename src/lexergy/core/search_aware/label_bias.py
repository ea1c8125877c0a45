"""Label bias, exactly: what locally normalised models cannot say and globally normalised ones can.

*Partial input* (Sec. 3, Andor et al. 2016; 5.1.1, Goyal 2021). A model that reads the input from left to right has
seen "a b" when it decides between B and D; whether "c" or "e" comes, it learns too late. Locally normalised, the masses
of B and of D after A add up to 1 for both inputs, so that p(A B C | a b c) + p(A D E | a b e) <= 1. A globally
normalised model of the very same features takes the decision back when it sees the third word, and both go to 1. Given
the whole input at each step, they tie.

*Inexact search* (Figure 5.1). The continuations of a wrong hypothesis share a whole unit of mass, however bad they are.
"""

import math
from collections import Counter
from collections.abc import Sequence
from itertools import product
from typing import Literal, TypeAlias

import torch

Pair: TypeAlias = tuple[str, str]
"""An input and the labels of its symbols, one letter each."""

Sight: TypeAlias = Literal["past", "whole"]
"""What of the input the decision at a step may depend on: the symbols up to it, or all."""

ANDOR_EXAMPLE: tuple[Pair, ...] = (("abc", "ABC"), ("abe", "ADE"))


def local_probabilities(pairs: Sequence[Pair], sight: Sight) -> list[float]:
    """p(y | x) of each pair in the locally normalised model of highest likelihood, prod_i p(y_i | x_seen, y_{<i}).

    The model is a free table, whose maximum is known: the share of each label among those that the same context has
    in the pairs.
    """
    decisions = Counter(decision for pair in pairs for decision in _decisions(*pair, sight))
    contexts = Counter(decision[:-1] for pair in pairs for decision in _decisions(*pair, sight))
    return [
        math.prod(decisions[decision] / contexts[decision[:-1]] for decision in _decisions(*pair, sight))
        for pair in pairs
    ]


def global_probabilities(pairs: Sequence[Pair], sight: Sight, weight: float) -> list[float]:
    """p(y | x) = exp s(x, y) / sum_y' exp s(x, y') of each pair, the sum over all sequences of labels by enumeration.

    s(x, y) is `weight` times the number of the sequence's decisions that occur in the pairs: the features are the
    local model's own, a label after what was seen and written before it. Likelihood grows with the weight.
    """
    known = {decision for pair in pairs for decision in _decisions(*pair, sight)}
    labels = sorted({label for _, sequence in pairs for label in sequence})

    def score(inputs: str, sequence: Sequence[str]) -> float:
        return weight * sum(decision in known for decision in _decisions(inputs, "".join(sequence), sight))

    return [
        math.exp(
            score(inputs, gold)
            - float(torch.tensor([score(inputs, y) for y in product(labels, repeat=len(gold))]).double().logsumexp(0))
        )
        for inputs, gold in pairs
    ]


def largest_lead_dropped(num_symbols: int, beam: int, *, normalised: bool) -> float:
    """By how much a wrong hypothesis may lead the right one, and search still drop all its continuations (Figure 5.1).

    A beam of k must be filled by the right hypothesis. Locally normalised, the best of the wrong one's V continuations
    has log-probability at least -log V, and the k-th best of the right one's at most -log k: the lead must be below
    log(V / k), which a small set of labels makes nothing. Without normalisation any lead can be undone.
    """
    return math.log(num_symbols / beam) if normalised else math.inf


def _decisions(inputs: str, labels: str, sight: Sight) -> list[tuple[str, str, str]]:
    """Input seen, labels before, label: at each step."""
    seen = [inputs[: step + 1] if sight == "past" else inputs for step in range(len(labels))]
    return [(seen[step], labels[:step], labels[step]) for step in range(len(labels))]
