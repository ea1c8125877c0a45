"""Text that no generator wrote: single tokens replaced or swapped, at random places or where the energy yields most."""

from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple, Protocol, Self

import torch
from torch import Tensor, nn

from lexergy.errors import LexergyError

Goal = Literal["lower", "raise"]
LOGITS_AT_ONCE = 2**26  # estimates of replacements held at once: bounds the memory, changes no result


class WindowEnergy(Protocol):
    """An energy of windows with a gradient in what it embeds: any `EnergyModel` that reads tokens."""

    def score(self, prefix: Tensor, continuations: Tensor) -> Tensor: ...  # (B, P), (B, K, C) -> (B, K)

    def modules(self) -> Iterator[nn.Module]: ...

    def eval(self) -> Self: ...


def replaced(windows: Tensor, position: int, tokens: Sequence[int]) -> Tensor:  # (N, L) -> (N, L)
    """Other tokens from a position on, as many as there are or as fit: the window keeps its length."""
    changed = windows.clone()
    fitting = torch.tensor(tokens[: windows.shape[1] - position])
    changed[:, position : position + len(fitting)] = fitting
    return changed


def swapped(windows: Tensor, position: int) -> Tensor:  # (N, L) -> (N, L)
    """The token at a position and its neighbour to the right (at the last, to the left) change places."""
    neighbour = position + 1 if position + 1 < windows.shape[1] else position - 1
    changed = windows.clone()
    changed[:, [position, neighbour]] = windows[:, [neighbour, position]]
    return changed


def window_energies(energy: WindowEnergy, windows: Tensor) -> Tensor:  # (N, L) -> (N,)
    """E of whole windows, without gradients."""
    with torch.no_grad():
        return energy.score(windows[:, :0], windows[:, None]).squeeze(1).double()


class Attacked(NamedTuple):
    """Windows after so many replacements, and their energies."""

    windows: Tensor  # (N, L)
    energies: Tensor  # (N,)


def attack(
    energy: WindowEnergy,
    windows: Tensor,  # (N, L)
    allowed: Tensor,  # (N, L) bool, where tokens may be replaced
    goal: Goal,
    *,
    replacements: int,
    forbidden_tokens: tuple[int, ...] = (),
) -> Iterator[Attacked]:
    """Replace one token after the other where the energy is expected to fall (or rise) most: before, and after each.

    E(x') ~ E(x) + grad_{x_i} E(x) . (x'_i - x_i) over embeddings x_i (App. F, Bakhtin et al. 2019); a position is
    replaced once. The estimate is of the first order, so that the energy itself may move the other way.
    """
    energy.eval()
    allowed = allowed.clone()
    sign = 1.0 if goal == "lower" else -1.0
    yield Attacked(windows, window_energies(energy, windows))
    for _ in range(replacements):
        best = [
            _best_replacement(energy, rows, where, sign, forbidden_tokens)
            for rows, where in zip(*(part.split(_rows(energy, windows)) for part in (windows, allowed)), strict=True)
        ]
        positions, tokens = (torch.cat(parts) for parts in zip(*best, strict=True))
        rows = torch.arange(len(windows))
        windows = windows.clone()
        windows[rows, positions] = tokens
        allowed[rows, positions] = False
        yield Attacked(windows, window_energies(energy, windows))


def _best_replacement(
    energy: WindowEnergy, windows: Tensor, allowed: Tensor, sign: float, forbidden_tokens: tuple[int, ...]
) -> tuple[Tensor, Tensor]:  # (N,), (N,)
    """Which position and token promise the largest change."""
    states, gradient = _embedding_gradient(energy, windows)  # (N, L, D) each
    table = token_embedding(energy).weight.detach()  # (V, D)
    change = gradient @ table.T - (gradient * states).sum(-1, keepdim=True)  # (N, L, V)
    change = (sign * change).masked_fill(~allowed[..., None], torch.inf)
    change.scatter_(2, windows[..., None], torch.inf)
    if forbidden_tokens:
        change[..., list(forbidden_tokens)] = torch.inf
    best = change.flatten(1).argmin(1)
    return best // change.shape[2], best % change.shape[2]


def _embedding_gradient(energy: WindowEnergy, windows: Tensor) -> tuple[Tensor, Tensor]:
    """The embeddings of windows, and the gradient of the energy in them: (N, L, D) each."""
    read: list[Tensor] = []

    def keep(module: nn.Module, inputs: Any, output: Tensor) -> Tensor:
        read.append(output.detach().requires_grad_())
        return read[-1]

    hook = token_embedding(energy).register_forward_hook(keep)
    try:
        with torch.enable_grad():
            total = energy.score(windows[:, :0], windows[:, None]).sum()
            gradients = torch.autograd.grad(total, read)
    finally:
        hook.remove()
    return torch.cat(read).detach(), torch.cat(gradients)  # an energy may read its rows in several batches


def token_embedding(energy: WindowEnergy) -> nn.Embedding:
    """The table that an energy reads tokens by: its first one."""
    for module in energy.modules():
        if isinstance(module, nn.Embedding):
            return module
    raise LexergyError(f"{type(energy).__name__} has no token embedding; expected one, to attack it by its gradient.")


def _rows(energy: WindowEnergy, windows: Tensor) -> int:
    return max(1, LOGITS_AT_ONCE // (windows.shape[1] * token_embedding(energy).num_embeddings))
