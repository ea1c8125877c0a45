"""Costs of a sequence that add up over its steps, L(y, y*) = sum_t d_t(y_t) (4.3, Goyal 2021)."""

from collections.abc import Callable
from typing import TypeAlias

import torch
import torch.nn.functional as functional
from torch import Tensor

from lexergy.core.search_aware.step_decoder import PADDING, StepDecoder, written

StepCosts: TypeAlias = Callable[[int, Tensor], Tensor]
"""A position and symbols (B, N) that may be written there -> what each costs, (B, N). Asked for the symbols that
compete alone, so that nothing as large as (B, T, V) is ever made."""


def hamming_costs(decoder: StepDecoder, gold: Tensor, weights: Tensor | None = None) -> StepCosts:  # (B, T), (V,)
    """d_t(v) = w_v 1[v != y*_t]: one for each wrong symbol, or its weight.

    Weights belong to the symbol that is written: 2 for "O" penalises a wrong "O" doubly (4.5.1, Goyal 2021). Where
    sequences end by `end`, gold goes on with `end` for ever: who writes on after gold's end, and who ends before it,
    pays for each step.
    """
    targets = _continued(decoder, gold)

    def costs(position: int, symbols: Tensor) -> Tensor:  # (B, N) -> (B, N)
        target = targets[:, min(position, targets.shape[1] - 1), None]
        wrong = (symbols != target) & (target != PADDING)
        dtype = decoder.embeddings.dtype
        return wrong.to(dtype) if weights is None else torch.where(wrong, weights.to(dtype)[symbols], 0)

    return costs


def sequence_cost(decoder: StepDecoder, symbols: Tensor, costs: StepCosts) -> Tensor:  # (B, T) -> (B,)
    """L(y, y*) of whole sequences; one that has ended goes on with `end` until its length is reached."""
    symbols = _continued(decoder, symbols)
    total = decoder.embeddings.new_zeros(len(symbols))
    for position in range(int(decoder.lengths.max())):
        symbol = symbols[:, min(position, symbols.shape[1] - 1), None].clamp_min(0)
        total = total + torch.where(position < decoder.lengths, costs(position, symbol)[:, 0], 0)
    return total


def _continued(decoder: StepDecoder, symbols: Tensor) -> Tensor:  # (B, T) -> (B, T + 1)
    """Sequences that go on with `end` after their end, or with padding where there is none; so does the last column."""
    after = PADDING if decoder.end is None else decoder.end
    return functional.pad(symbols.masked_fill(~written(decoder, symbols), after), (0, 1), value=after)
