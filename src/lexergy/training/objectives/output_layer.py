"""The objective of what is trained on an LM's last states: the next token's likelihood."""

from typing import Any

import torch
import torch.nn.functional as functional
from torch import Tensor

from lexergy.models.causal.positions import POSITIONS_AT_ONCE, Positions
from lexergy.models.loading.devices import device_of
from lexergy.training.objectives.contrastive import evaluating


class OutputLayerModelling:
    """-mean log p(x_t | x_<t) over positions whose states are known; the model maps states and contexts to logits."""

    def __init__(self, train: Positions, validation: Positions, context_length: int) -> None:
        self.train = (train.flat_states, train.before(context_length), train.tokens)
        self.validation = (validation.flat_states, validation.before(context_length), validation.tokens)

    @property
    def num_examples(self) -> int:
        return len(self.train[-1])

    def loss(self, model: Any, indices: Tensor, generator: torch.Generator) -> tuple[Tensor, dict[str, float]]:
        return _loss(model, *(part[indices] for part in self.train)), {}

    def evaluate(self, model: Any) -> dict[str, float]:
        chunks = zip(*(part.split(POSITIONS_AT_ONCE) for part in self.validation), strict=True)
        with evaluating(model):
            losses = [float(_loss(model, *chunk)) * len(chunk[-1]) for chunk in chunks]
        return {"loss": sum(losses) / len(self.validation[-1])}


def _loss(model: Any, states: Tensor, before: Tensor, tokens: Tensor) -> Tensor:  # (n, D), (n, width), (n,) -> ()
    device = device_of(model)
    return functional.cross_entropy(model(states.to(device), before.to(device)), tokens.to(device))
