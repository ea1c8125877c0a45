"""A low-rank change of a frozen LM's output layer, before it is merged: what is trained of `AdapterResidual`."""

from typing import Any

import torch
from torch import Tensor, nn

from lexergy.models.architectures.initialisation import initialised_from
from lexergy.models.causal.lm import CausalLM
from lexergy.models.causal.local_residuals import AdapterResidual


class OutputAdapter(nn.Module):
    """logits = W (h + A B h), tied, or W h + A B h; A = 0 at the start.

    W is the frozen LM's and no parameter here. The LM's forbidden tokens and its residuals so far are in the logits.
    """

    def __init__(self, lm: CausalLM, rank: int, tied: bool, seed: int) -> None:
        super().__init__()
        head: Any = lm.model.get_output_embeddings()
        self.tied = tied
        self._lm = (lm,)  # hidden from `parameters`
        with initialised_from(seed):
            self.down = nn.Linear(head.in_features, rank, bias=False)
        self.up = nn.Linear(rank, head.in_features if tied else head.out_features, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, states: Tensor, before: Tensor) -> Tensor:  # (n, D), (n, width) -> (n, V)
        (lm,) = self._lm
        head: Any = lm.model.get_output_embeddings()
        change = self.up(self.down(states))
        logits = head(states + change) if self.tied else head(states) + change
        return lm.correct(logits.float(), before)

    @torch.no_grad()
    def residual(self) -> AdapterResidual:
        """As it is kept: what is added to W is up @ down."""
        (lm,) = self._lm
        head: Any = lm.model.get_output_embeddings()
        up = head.weight @ self.up.weight if self.tied else self.up.weight
        return AdapterResidual(up.detach().clone(), self.down.weight.detach().clone())
