"""Minimising a smooth convex function."""

from collections.abc import Callable

import torch
from torch import Tensor


def minimise(objective: Callable[[Tensor], Tensor], start: Tensor, *, max_iterations: int = 1000) -> Tensor:
    """argmin of `objective` ((n,) -> ()) from `start` (n,), by L-BFGS with Wolfe's line search."""
    point = start.detach().clone().requires_grad_()
    fine = point.dtype == torch.double
    optimizer = torch.optim.LBFGS(
        [point],
        max_iter=max_iterations,
        tolerance_grad=1e-10 if fine else 1e-6,
        tolerance_change=1e-14 if fine else 1e-9,
        line_search_fn="strong_wolfe",
    )

    def closure() -> float:
        optimizer.zero_grad()
        loss = objective(point)
        loss.backward()
        return float(loss.detach())

    with torch.enable_grad():
        optimizer.step(closure)
    return point.detach()
