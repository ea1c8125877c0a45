"""Energies as training would leave them."""

from typing import TypeVar

import torch
from torch import Tensor, nn

from lexergy.models.energies import EnergyModel

Kind = TypeVar("Kind", bound=EnergyModel)


def wake(energy: Kind, seed: int = 0) -> Kind:
    """Give random weights to what starts at zero (head, n-gram input, LoRA's B), as training would."""
    generator = torch.Generator().manual_seed(seed)
    for name, parameter in energy.named_parameters():
        if parameter.requires_grad and not parameter.any():
            # Large adapters make the sums of float32 so ill-conditioned that nothing could be compared.
            parameter.data.normal_(std=0.03 if "lora_" in name else 1, generator=generator)
    return energy.eval()


class BagOfTokens(nn.Module):
    """A weight for each token, as a user's own module."""

    def __init__(self, vocab_size: int = 257) -> None:
        super().__init__()
        self.weights = nn.Embedding(vocab_size, 1)

    def forward(self, tokens: Tensor) -> Tensor:  # (B, L) -> (B,)
        return self.weights(tokens).sum((1, 2))
