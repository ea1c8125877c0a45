"""What energies have in common that are a head on features of a text."""

import torch
from torch import Tensor, nn

from lexergy.core.fitting.linear_heads import LinearHead
from lexergy.errors import LexergyError
from lexergy.models.architectures.initialisation import initialised_from
from lexergy.models.energies.base import EnergyModel


class FeatureEnergy(EnergyModel):
    """E(x) = head((f(x) - mean) / std), f whatever a subclass reads.

    The energy starts at 0, where the joint model is the LM.
    """

    mean: Tensor  # (F,)
    std: Tensor  # (F,)

    def add_head(
        self, groups: dict[str, int], hidden_units: int | None = None, dropout: float = 0.0, seed: int = 0
    ) -> None:
        """A head on groups of so many features each, in this order (`hidden_units` None: linear)."""
        self.groups = groups
        size = sum(groups.values())
        self.register_buffer("mean", torch.zeros(size))
        self.register_buffer("std", torch.ones(size))
        with initialised_from(seed):
            self.head = _head(size, hidden_units, dropout)

    def fit_standardisation(self, features: Tensor) -> None:
        """Set mean and deviation from training features (..., F); a constant feature is only centred."""
        flat = features.detach().reshape(-1, features.shape[-1]).double()  # (N, F)
        if not flat.isfinite().all():
            raise LexergyError("training features contain NaN or infinity; expected finite numbers; check the model.")
        std, mean = torch.std_mean(flat, dim=0, correction=0)
        # A constant feature keeps a rounding error for a deviation; dividing by it would blow up noise.
        constant = std <= 1e-6 * (1 + mean.abs())
        self.mean.copy_(mean)
        self.std.copy_(torch.where(constant, torch.ones_like(std), std))

    def set_linear_head(self, head: LinearHead) -> None:
        """Take over a head that was fitted to standardised features."""
        linear = self.head[-1]
        assert isinstance(linear, nn.Linear)
        with torch.no_grad():
            linear.weight.copy_(head.weight.unsqueeze(0))
            linear.bias.copy_(head.bias)

    def standardised(self, features: Tensor) -> Tensor:  # (..., F) -> (..., F)
        return (features.to(self.mean) - self.mean) / self.std

    def of_features(self, features: Tensor) -> Tensor:  # (..., F) -> (...)
        """The energy that these features have, whatever they are of."""
        return self.head(self.standardised(features)).squeeze(-1)


def _head(size: int, hidden_units: int | None, dropout: float) -> nn.Sequential:
    last = nn.Linear(hidden_units or size, 1)
    nn.init.zeros_(last.weight)
    nn.init.zeros_(last.bias)
    if hidden_units is None:
        return nn.Sequential(nn.Dropout(dropout), last)
    return nn.Sequential(nn.Linear(size, hidden_units), nn.GELU(), nn.Dropout(dropout), last)
