"""Down to a mode: single tokens are replaced while that lowers the energy."""

from typing import NamedTuple

import torch
from torch import Tensor

from lexergy.core.mcmc.metropolis import Conditionals, Energy
from lexergy.core.mcmc.sweeps import sweep_blocks

LEAST_GAIN = 1e-4  # nats: less is rounding, which depends on what is computed together


class Descent(NamedTuple):
    tokens: Tensor  # (C, L)
    energy: Tensor  # (C,) float64
    proven: Tensor  # (C,) bool: no replacement that was left out can lower the local energy


def descend(
    tokens: Tensor,  # (C, L)
    free: Tensor,  # (C, L) bool
    *,
    energy: Energy,
    local_energy: Energy,
    conditionals: Conditionals,
    most: int,
) -> Descent:
    """Each free position in turn takes the token of the lowest energy, again and again until none changes.

    Tried are the `most` likeliest tokens whose -log p(y'_i | y outside i) is below E_local(y). All terms of the local
    energy E_local(y) = -sum_t log p(y_t | y outside t) are positive and y'_i has the same context as y_i, so that no
    other token can lower it: where `most` cuts nothing off, y is a local minimum of E_local for certain.
    """
    state = energy(tokens).double()
    proven = torch.zeros(len(tokens), dtype=torch.bool)
    active = torch.ones(len(tokens), dtype=torch.bool)
    order = torch.arange(tokens.shape[1], dtype=torch.double)
    while active.any():
        rows = active.nonzero().squeeze(1)
        before, all_tried = tokens[rows], torch.ones(len(rows), dtype=torch.bool)
        for block in sweep_blocks(free[rows], order.expand(len(rows), -1), block_size=1):
            tried = _replacements(tokens[rows], block, local_energy, conditionals, most)
            all_tried &= tried.complete
            best, replaced = _lowest(tried, energy, state[rows])
            tokens, state = tokens.index_put((rows,), replaced), state.index_put((rows,), best)
        proven[rows] = all_tried
        active = active.index_put((rows,), (tokens[rows] != before).any(dim=1))
    return Descent(tokens, state, proven)


class _Replacements(NamedTuple):
    current: Tensor  # (R, L)
    tokens: Tensor  # (N, L)
    rows: Tensor  # (N,), which of the current ones each would replace
    complete: Tensor  # (R,) bool


def _replacements(
    current: Tensor, block: Tensor, local_energy: Energy, conditionals: Conditionals, most: int
) -> _Replacements:
    """One position of each row (R, L) replaced; a row whose block is empty has none."""
    numbers, places = block.nonzero(as_tuple=True)  # (M,) each
    complete = torch.ones(len(current), dtype=torch.bool)
    if len(numbers) == 0:
        return _Replacements(current, current[:0], numbers, complete)
    log_probs = conditionals(current[numbers], block[numbers]).log_softmax(-1)  # (M, V)
    others = log_probs.scatter(1, current[numbers, places][:, None], -torch.inf)
    likeliest = others.topk(min(most + 1, others.shape[1]), dim=1)
    worth = -likeliest.values < local_energy(current[numbers])[:, None]  # (M, most + 1)
    complete[numbers] = worth.sum(dim=1) <= most
    which, ranks = worth[:, :most].nonzero(as_tuple=True)  # (N,) each
    rows = numbers[which]
    replaced = current[rows].index_put((torch.arange(len(rows)), places[which]), likeliest.indices[which, ranks])
    return _Replacements(current, replaced, rows, complete)


def _lowest(tried: _Replacements, energy: Energy, state: Tensor) -> tuple[Tensor, Tensor]:
    """Energies (R,) and rows (R, L) after the best replacement of each row, where one lowers the energy."""
    if len(tried.rows) == 0:
        return state, tried.current
    energies = energy(tried.tokens).double()
    lowest = state.scatter_reduce(0, tried.rows, energies, "amin")
    better = (energies == lowest[tried.rows]) & (energies < state[tried.rows] - LEAST_GAIN)
    moved = tried.current.index_put((tried.rows[better],), tried.tokens[better])
    kept = (moved == tried.current).all(dim=1)
    return torch.where(kept, state, lowest), moved
